-- One row per client, side and hour: (cluster, client, side, hour); client is NULL if the traces do not contain it.
{{ config(partition_by='days(hour)', replaces='hour') }}
with records as (
  select
    cluster,
    client,
    'producer' as side,
    hour,
    hour_source,
    sent_at as client_time,
    stored_at
  from {{ rows_in_hours_of('affected', ref('fct_sends')) }}
  union all
  select
    cluster,
    client,
    'consumer' as side,
    hour,
    hour_source,
    begun_at as client_time,
    stored_at
  from {{ rows_in_hours_of('affected', ref('fct_consume_attempts')) }}
  where has_begin
),

-- A delivery compares the clocks of two clients, and counts for both.
compared as (
  select
    deliveries.cluster,
    clocks.client,
    clocks.side,
    deliveries.hour,
    deliveries.queue_wait_ms,
    deliveries.end_to_end_ms,
    least(deliveries.queue_wait_ms, deliveries.end_to_end_ms) as least_ms
  from {{ rows_in_hours_of('affected', ref('fct_deliveries')) }} as deliveries
    lateral view inline(array(
      struct('producer' as side, deliveries.producer_client as client),
      struct('consumer' as side, deliveries.client as client)
    )) clocks as side, client
  where deliveries.queue_wait_ms is not null or deliveries.end_to_end_ms is not null
),

observations as (
  select
    cluster,
    client,
    side,
    hour,
    hour_source,
    case when hour_source = 'event_time' then unix_millis(client_time) - unix_millis(stored_at) end as lead_ms,
    cast(null as bigint) as queue_wait_ms,
    cast(null as bigint) as end_to_end_ms,
    cast(null as bigint) as least_ms
  from records
  union all
  select
    cluster,
    client,
    side,
    hour,
    cast(null as string) as hour_source,
    cast(null as bigint) as lead_ms,
    queue_wait_ms,
    end_to_end_ms,
    least_ms
  from compared
)

select
  cluster,
  client,
  side,
  hour,
  count(hour_source) as records,
  count_if(hour_source = 'store_time') as records_by_store_time,
  max(lead_ms) as lead_ms,
  count(least_ms) as deliveries,
  count_if(queue_wait_ms < 0) as negative_queue_waits,
  count_if(end_to_end_ms < 0) as negative_end_to_ends,
  max(-least_ms) filter (where least_ms < 0) as max_skew_ms
from observations
group by cluster, client, side, hour

-- One row per side and group with connected clients (cluster, side, group_name), if none of them is known to have its trace on
-- and the group has written no trace in the look-back, or if only some have it on.
with last_traces as (
  select
    cluster,
    'producer' as side,
    producer_group as group_name,
    max(last_sent_at) as last_trace_at
  from {{ ref('int_send_hours') }}
  group by cluster, producer_group
  union all
  select
    cluster,
    'consumer' as side,
    consumer_group as group_name,
    max(last_attempt_at) as last_trace_at
  from {{ ref('int_consume_hours') }}
  group by cluster, consumer_group
),

topics as (
  select
    subscriptions.cluster,
    subscriptions.consumer_group,
    array_sort(collect_set(subscriptions.topic)) as topics
  from {{ ref('int_subscriptions') }} as subscriptions
  inner join {{ ref('int_coverage_inputs') }} as inputs
    on
      subscriptions.cluster = inputs.cluster
      and subscriptions.subscribed_from <= inputs.as_of
      and subscriptions.subscribed_to > inputs.as_of
  group by subscriptions.cluster, subscriptions.consumer_group
)

select
  connected.cluster,
  connected.side,
  connected.group_name,
  topics.topics,
  connected.languages,
  connected.versions,
  connected.connected_since,
  connected.clients,
  connected.tracing_clients,
  last_traces.last_trace_at
from {{ ref('int_connected_groups') }} as connected
inner join {{ ref('int_watermarks') }} as watermarks
  on connected.cluster = watermarks.cluster
left join last_traces
  on
    connected.cluster = last_traces.cluster
    and connected.side = last_traces.side
    and connected.group_name = last_traces.group_name
left join topics
  on
    connected.side = 'consumer'
    and connected.cluster = topics.cluster
    and connected.group_name = topics.consumer_group
where
  connected.tracing_clients between 1 and connected.clients - 1
  or (
    connected.tracing_clients = 0
    and (last_traces.last_trace_at is null or last_traces.last_trace_at < watermarks.watermark - {{ expected_group_lookback() }})
  )

-- One row per client host and hour: (cluster, client_host, hour), the estimated completeness of its traces.
{{ config(partition_by='days(hour)', replaces='hour') }}
with counted as (
  select
    cluster,
    {{ client_host('client') }} as client_host,
    hour,
    0L as pubs,
    count(*) as attempts,
    count_if(has_begin and has_end) as pairs,
    count_if(not has_begin) as ends_without_begin,
    count_if(outcome = 'not_returned') as begins_without_end,
    count_if(outcome = 'in_flight') as in_flight,
    count_if(not is_published) as attempts_without_pub
  from {{ rows_in_hours_of('affected', ref('fct_consume_attempts')) }}
  group by cluster, {{ client_host('client') }}, hour
  union all
  select
    cluster,
    {{ client_host('client') }} as client_host,
    hour,
    count_if(batch_index = 0) as pubs,
    0L as attempts,
    0L as pairs,
    0L as ends_without_begin,
    0L as begins_without_end,
    0L as in_flight,
    0L as attempts_without_pub
  from {{ rows_in_hours_of('affected', ref('fct_sends')) }}
  group by cluster, {{ client_host('client') }}, hour
),

summed as (
  select
    cluster,
    client_host,
    hour,
    sum(pubs) as pubs,
    sum(attempts) as attempts,
    sum(pairs) as pairs,
    sum(ends_without_begin) as ends_without_begin,
    sum(begins_without_end) as begins_without_end,
    sum(in_flight) as in_flight,
    sum(attempts_without_pub) as attempts_without_pub
  from counted
  group by cluster, client_host, hour
)

{{ with_estimated_loss('summed') }}

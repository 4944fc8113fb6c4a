-- One row per client host and hour: (cluster, client_host, hour). dim_client_hosts sums these rows.
{{ config(materialized='audited_table', contract={'enforced': true}, partition_by='days(hour)', replaces='hour', set='changed') }}

with seen as (
  select
    cluster,
    {{ client_host('client') }} as client_host,
    hour,
    sent_at as seen_at,
    1 as sends,
    0 as attempts,
    layout,
    cast(null as string) as end_layout
  from {{ rows_in_hours_of('changed', ref('fct_sends')) }}
  where client is not null
  union all
  select
    cluster,
    {{ client_host('client') }} as client_host,
    hour,
    occurred_at as seen_at,
    0 as sends,
    1 as attempts,
    begin_layout as layout,
    end_layout
  from {{ rows_in_hours_of('changed', ref('fct_consume_attempts')) }}
  where client is not null
)

select
  cluster,
  client_host,
  hour,
  min(seen_at) as first_seen_at,
  max(seen_at) as last_seen_at,
  sum(sends) as sends,
  sum(attempts) as attempts,
  array_sort(array_union(collect_set(layout), collect_set(end_layout))) as layouts
from seen
group by cluster, client_host, hour

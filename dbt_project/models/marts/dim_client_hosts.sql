-- One row a machine that clients wrote traces from: (cluster, client_host).
with seen as (
  select
    cluster,
    {{ client_host('client') }} as client_host,
    min(sent_at) as first_seen_at,
    max(sent_at) as last_seen_at,
    count(*) as sends,
    0L as attempts,
    collect_set(layout) as layouts
  from {{ ref('fct_sends') }}
  where client is not null
  group by cluster, {{ client_host('client') }}
  union all
  select
    cluster,
    {{ client_host('client') }} as client_host,
    min(occurred_at) as first_seen_at,
    max(occurred_at) as last_seen_at,
    0L as sends,
    count(*) as attempts,
    array_union(collect_set(begin_layout), collect_set(end_layout)) as layouts
  from {{ ref('fct_consume_attempts') }}
  where client is not null
  group by cluster, {{ client_host('client') }}
),

hosts as (
  select
    cluster,
    client_host,
    min(first_seen_at) as first_seen_at,
    max(last_seen_at) as last_seen_at,
    sum(sends) as sends,
    sum(attempts) as attempts,
    array_sort(array_distinct(flatten(collect_list(layouts)))) as layouts
  from seen
  group by cluster, client_host
)

select
  cluster,
  client_host,
  first_seen_at,
  last_seen_at,
  sends,
  attempts,
  array_compact(array(case when attempts > 0 then 'consumer' end, case when sends > 0 then 'producer' end)) as roles,
  layouts,
  array_sort(array_distinct(array_compact(transform(layouts, layout -> {{ client_family('layout') }})))) as client_families
from hosts

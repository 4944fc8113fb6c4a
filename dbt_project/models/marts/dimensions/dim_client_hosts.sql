-- One row per client host that wrote traces: (cluster, client_host).
with hosts as (
  select
    cluster,
    client_host,
    min(first_seen_at) as first_seen_at,
    max(last_seen_at) as last_seen_at,
    sum(sends) as sends,
    sum(attempts) as attempts,
    {{ sorted_union('layouts') }} as layouts
  from {{ ref('int_client_hours') }}
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

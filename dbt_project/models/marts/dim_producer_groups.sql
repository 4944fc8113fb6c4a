-- One row a producer group that sent: (cluster, producer_group).
select
  cluster,
  producer_group,
  min(sent_at) as first_seen_at,
  max(sent_at) as last_seen_at,
  count(*) as sends,
  array_sort(collect_set(msg_type)) as msg_types,
  array_sort(collect_set(layout)) as layouts
from {{ ref('fct_sends') }}
where producer_group is not null
group by cluster, producer_group

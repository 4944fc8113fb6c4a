-- One row per producer group that sent: (cluster, producer_group).
select
  cluster,
  producer_group,
  min(first_sent_at) as first_seen_at,
  max(last_sent_at) as last_seen_at,
  sum(sends) as sends,
  {{ sorted_union('msg_types') }} as msg_types,
  {{ sorted_union('layouts') }} as layouts
from {{ ref('int_send_hours') }}
where producer_group is not null
group by cluster, producer_group

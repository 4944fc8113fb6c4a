-- One row per consumer group in broadcast mode: (cluster, consumer_group). The seed broadcast_groups decides; without a row
-- there, a group broadcasts if most of its messages had first attempts on several clients. Published, because the next
-- incremental run compares its own rows with these.
{{ config(materialized='audited_table', contract={'enforced': true}) }}
with inferred as (
  select
    cluster,
    consumer_group,
    sum(first_messages_on_clients) >= 2 and sum(first_messages_on_clients) * 2 > sum(first_messages) as is_broadcast
  from {{ ref('int_consume_hours') }}
  where consumer_group is not null
  group by cluster, consumer_group
)

select
  cluster,
  consumer_group
from inferred
full outer join {{ ref('broadcast_groups') }} as stated using (cluster, consumer_group)
where coalesce(stated.is_broadcast, inferred.is_broadcast)

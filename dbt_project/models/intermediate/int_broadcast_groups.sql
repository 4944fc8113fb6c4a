-- One row a consumer group in broadcast mode: the seed says so, or most messages had first attempts on several clients.
with first_attempts as (
  select
    cluster,
    consumer_group,
    msg_id,
    count(distinct client) as clients
  from {{ ref('fct_consume_attempts') }}
  where consumer_group is not null and retry_times = 0
  group by cluster, consumer_group, msg_id
),

inferred as (
  select
    cluster,
    consumer_group,
    count_if(clients > 1) >= 2 and count_if(clients > 1) * 2 > count(*) as is_broadcast
  from first_attempts
  group by cluster, consumer_group
)

select
  cluster,
  consumer_group
from inferred
full outer join {{ ref('broadcast_groups') }} as stated using (cluster, consumer_group)
where coalesce(stated.is_broadcast, inferred.is_broadcast)

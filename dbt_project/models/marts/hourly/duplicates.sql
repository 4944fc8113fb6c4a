-- One row per consumer group, topic and hour: (cluster, consumer_group, topic, hour), of deliveries to groups that do not
-- broadcast; topic is NULL if no Pub of the message is known.
{{ config(partition_by='days(hour)', replaces='hour') }}
select
  cluster,
  consumer_group,
  topic,
  hour,
  count(*) as deliveries,
  count_if(duplicates > 0) as duplicated,
  sum(attempts) as attempts,
  sum(duplicates) as duplicates,
  sum(extra_copies) as extra_copies
from {{ rows_in_hours_of('affected', ref('fct_deliveries')) }}
where not is_broadcast
group by cluster, consumer_group, topic, hour

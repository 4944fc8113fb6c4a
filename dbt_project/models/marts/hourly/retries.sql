-- One row per consumer group, topic and hour: (cluster, consumer_group, topic, hour), of deliveries to groups that do not
-- broadcast; topic is NULL if no Pub of the message is known.
{{ config(partition_by='days(hour)', replaces='hour') }}
with totals as (
  select
    cluster,
    consumer_group,
    topic,
    hour,
    -- A client may write any number; the key of a map is limited to an int.
    cast(least(retries, 2147483647) as int) as bucket,
    count(*) as cases,
    sum(attempts) as attempts,
    sum(retries) as retries,
    max(retries) as max_retries,
    count_if(retries > 0) as retried,
    count_if(outcome = 'exhausted') as exhausted
  from {{ rows_in_hours_of('affected', ref('fct_deliveries')) }}
  where not is_broadcast
  group by all
)

select
  cluster,
  consumer_group,
  topic,
  hour,
  sum(cases) as deliveries,
  sum(attempts) as attempts,
  sum(retried) as retried,
  sum(exhausted) as exhausted,
  sum(retries) as retries,
  max(max_retries) as max_retries,
  {{ histogram_of('bucket', 'cases') }} as histogram
from totals
group by cluster, consumer_group, topic, hour

-- One row per consumer group, topic and hour: (cluster, consumer_group, topic, hour); topic is NULL if no Pub of the message is
-- known.
{{ config(partition_by='days(hour)', replaces='hour') }}
with attempts as (
  select
    cluster,
    consumer_group,
    topic,
    hour,
    count(*) as attempts,
    count_if(has_end) as attempts_with_end,
    count_if(outcome = 'success') as succeeded,
    count_if(outcome = 'exception') as exception,
    count_if(outcome = 'returned_null') as returned_null,
    count_if(outcome = 'failed') as failed,
    count_if(outcome = 'timeout') as timeout,
    count_if(outcome = 'not_returned') as not_returned,
    count_if(outcome = 'in_flight') as in_flight,
    count_if(not has_begin) as ends_without_begin,
    count_if(not has_end) as begins_without_end,
    count_if(not is_published) as attempts_without_pub,
    count_if(hour_source = 'store_time') as attempts_by_store_time,
    sum(greatest(begin_copies - 1, 0) + greatest(end_copies - 1, 0)) as extra_copies
  from {{ rows_in_hours_of('affected', ref('fct_consume_attempts')) }}
  where consumer_group is not null
  group by cluster, consumer_group, topic, hour
),

deliveries as (
  select
    cluster,
    consumer_group,
    topic,
    hour,
    count(*) as deliveries,
    count_if(outcome = 'succeeded') as deliveries_succeeded,
    count_if(outcome = 'in_flight') as deliveries_in_flight,
    count_if(outcome = 'not_returned') as deliveries_not_returned,
    count_if(outcome = 'retrying') as deliveries_retrying,
    count_if(outcome = 'exhausted') as deliveries_exhausted,
    count(is_first_attempt_success) as first_attempts,
    count_if(is_first_attempt_success) as first_attempts_succeeded,
    sum(retries) as retries,
    sum(duplicates) as duplicates
  from {{ rows_in_hours_of('affected', ref('fct_deliveries')) }}
  group by cluster, consumer_group, topic, hour
)

select
  attempts.cluster,
  attempts.consumer_group,
  attempts.topic,
  attempts.hour,
  attempts.attempts,
  attempts.attempts_with_end,
  attempts.succeeded,
  attempts.exception,
  attempts.returned_null,
  attempts.failed,
  attempts.timeout,
  attempts.not_returned,
  attempts.in_flight,
  coalesce(deliveries.deliveries, 0) as deliveries,
  coalesce(deliveries.deliveries_succeeded, 0) as deliveries_succeeded,
  coalesce(deliveries.deliveries_in_flight, 0) as deliveries_in_flight,
  coalesce(deliveries.deliveries_not_returned, 0) as deliveries_not_returned,
  coalesce(deliveries.deliveries_retrying, 0) as deliveries_retrying,
  coalesce(deliveries.deliveries_exhausted, 0) as deliveries_exhausted,
  coalesce(deliveries.first_attempts, 0) as first_attempts,
  coalesce(deliveries.first_attempts_succeeded, 0) as first_attempts_succeeded,
  coalesce(deliveries.retries, 0) as retries,
  coalesce(deliveries.duplicates, 0) as duplicates,
  attempts.ends_without_begin,
  attempts.begins_without_end,
  attempts.attempts_without_pub,
  attempts.attempts_by_store_time,
  attempts.extra_copies
from attempts
left join deliveries
  on
    attempts.cluster = deliveries.cluster
    and attempts.consumer_group = deliveries.consumer_group
    and attempts.topic <=> deliveries.topic
    and attempts.hour = deliveries.hour

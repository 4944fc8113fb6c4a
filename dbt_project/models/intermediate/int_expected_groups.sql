-- One row per period of publication time in which a group is expected to consume a topic, bounds included: the union of
-- [attempt, attempt + look-back] over its attempts on the topic, and before the first one the time in which it subscribed to the
-- topic, at most the look-back. But for the first one, attempts never change the past. Published, because the next incremental
-- run compares its own rows with these.
{{ config(materialized='audited_table', contract={'enforced': true}) }}

-- An hour is shorter than the look-back, so the first and last attempt of an hour represent all of its attempts.
with with_previous as (
  select
    *,
    max(last_attempt_at) over (
      partition by cluster, topic, consumer_group
      order by hour rows between unbounded preceding and 1 preceding
    ) as previous_at
  from {{ ref('int_consume_hours') }}
  where topic is not null and consumer_group is not null
),

numbered as (
  select
    *,
    count_if(previous_at is null or first_attempt_at > previous_at + {{ expected_group_lookback() }}) over (
      partition by cluster, topic, consumer_group order by hour
    ) as period
  from with_previous
),

traced as (
  select
    cluster,
    topic,
    consumer_group,
    min(first_attempt_at) as expected_from,
    max(last_attempt_at) + {{ expected_group_lookback() }} as expected_to
  from numbered
  group by cluster, topic, consumer_group, period
),

first_attempts as (
  select
    cluster,
    topic,
    consumer_group,
    min(first_attempt_at) as first_attempt_at
  from with_previous
  group by cluster, topic, consumer_group
),

-- A consumer in broadcast mode starts at the end of the topic, and has no offsets that show what it did.
subscribed as (
  select
    first_attempts.cluster,
    first_attempts.topic,
    first_attempts.consumer_group,
    greatest(
      subscriptions.subscribed_from, first_attempts.first_attempt_at - {{ expected_group_lookback() }}
    ) as expected_from,
    least(subscriptions.subscribed_to - interval '0.000001' second, first_attempts.first_attempt_at) as expected_to
  from first_attempts
  inner join {{ ref('int_subscriptions') }} as subscriptions
    on
      first_attempts.cluster = subscriptions.cluster
      and first_attempts.topic = subscriptions.topic
      and first_attempts.consumer_group = subscriptions.consumer_group
      and first_attempts.first_attempt_at > subscriptions.subscribed_from
  left anti join {{ ref('int_broadcast_groups') }} as broadcast
    on first_attempts.cluster = broadcast.cluster and first_attempts.consumer_group = broadcast.consumer_group
),

-- Several brokers name a subscription.
subscribed_periods as (
  select
    cluster,
    topic,
    consumer_group,
    expected_from,
    max(expected_to) as expected_to
  from subscribed
  where expected_from <= expected_to
  group by cluster, topic, consumer_group, expected_from
),

overrides as (
  select
    cluster,
    topic,
    consumer_group,
    coalesce(valid_from, timestamp '1970-01-01 00:00:00') as expected_from,
    coalesce(valid_to - interval '0.000001' second, timestamp '9999-12-31 00:00:00') as expected_to
  from {{ ref('expected_group_overrides') }}
  where is_expected
)

select * from traced
union distinct
select * from subscribed_periods
union distinct
select * from overrides

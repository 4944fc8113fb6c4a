-- One row per period of publication time in which a group is expected to consume a topic, bounds included: the union of
-- [attempt, attempt + look-back] over its attempts on the topic, and before the first one the time in which it subscribed to the
-- topic, at most the look-back. But for the first one, attempts never change the past. A retry proves nothing: a group that
-- consumes dead letters, whose attempts are retries of messages of the topic, does not consume the topic. Nor does one that is
-- known to have unsubscribed, from the next hour on. Published, because the next incremental run compares its own rows with
-- these.
{{ config(materialized='audited_table', contract={'enforced': true}) }}

-- An hour is shorter than the look-back, so the first and last try of an hour represent all of its tries.
with with_previous as (
  select
    *,
    max(last_try_at) over (
      partition by cluster, topic, consumer_group
      order by hour rows between unbounded preceding and 1 preceding
    ) as previous_at
  from {{ ref('int_consume_hours') }}
  where topic is not null and consumer_group is not null and first_try_at is not null
),

numbered as (
  select
    *,
    count_if(previous_at is null or first_try_at > previous_at + {{ expected_group_lookback() }}) over (
      partition by cluster, topic, consumer_group order by hour
    ) as period
  from with_previous
),

traced as (
  select
    cluster,
    topic,
    consumer_group,
    min(first_try_at) as expected_from,
    max(last_try_at) + {{ expected_group_lookback() }} as expected_to
  from numbered
  group by cluster, topic, consumer_group, period
),

first_tries as (
  select
    cluster,
    topic,
    consumer_group,
    min(first_try_at) as first_try_at
  from with_previous
  group by cluster, topic, consumer_group
),

-- A consumer in broadcast mode starts at the end of the topic, and has no offsets that show what it did.
subscribed as (
  select
    first_tries.cluster,
    first_tries.topic,
    first_tries.consumer_group,
    greatest(
      subscriptions.subscribed_from, first_tries.first_try_at - {{ expected_group_lookback() }}
    ) as expected_from,
    least(subscriptions.subscribed_to - interval '0.000001' second, first_tries.first_try_at) as expected_to
  from first_tries
  inner join {{ ref('int_subscriptions') }} as subscriptions
    on
      first_tries.cluster = subscriptions.cluster
      and first_tries.topic = subscriptions.topic
      and first_tries.consumer_group = subscriptions.consumer_group
      and first_tries.first_try_at > subscriptions.subscribed_from
  left anti join {{ ref('int_broadcast_groups') }} as broadcast
    on first_tries.cluster = broadcast.cluster and first_tries.consumer_group = broadcast.consumer_group
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

periods as (
  select * from traced
  union distinct
  select * from subscribed_periods
),

-- By the subscriptions on all brokers together.
subscriptions as (
  select
    *,
    max(subscribed_to) over (
      partition by cluster, topic, consumer_group
      order by subscribed_from rows between unbounded preceding and 1 preceding
    ) as previous_to
  from {{ ref('int_subscriptions') }}
),

numbered_subscriptions as (
  select
    *,
    count_if(subscribed_from > previous_to) over (
      partition by cluster, topic, consumer_group order by subscribed_from
    ) as period
  from subscriptions
),

subscription_periods as (
  select
    cluster,
    topic,
    consumer_group,
    max(subscribed_to) as subscribed_to,
    lead(min(subscribed_from), 1, timestamp '9999-12-31 00:00:00') over (
      partition by cluster, topic, consumer_group order by period
    ) as subscribed_again_from
  from numbered_subscriptions
  group by cluster, topic, consumer_group, period
),

-- The group is still known then: of a deleted one, the subscriptions end, too.
ended as (
  select
    ended.cluster,
    ended.topic,
    ended.consumer_group,
    date_trunc('hour', ended.subscribed_to) + interval '1' hour as ended_at,
    ended.subscribed_again_from
  from subscription_periods as ended
  left semi join {{ ref('stg_groups') }} as known
    on
      ended.cluster = known.cluster
      and ended.consumer_group = {{ without_prefixes('known.group_name') }}
      and ended.subscribed_to >= known.valid_from
      and ended.subscribed_to < coalesce(known.valid_to, timestamp '9999-12-31 00:00:00')
),

-- Until it subscribes, or attempts, again.
without_subscription as (
  select
    ended.cluster,
    ended.topic,
    ended.consumer_group,
    ended.ended_at,
    least(
      ended.subscribed_again_from,
      coalesce(
        min(
          case
            when tries.first_try_at >= ended.ended_at then tries.first_try_at
            when tries.last_try_at >= ended.ended_at then tries.last_try_at
          end
        ),
        timestamp '9999-12-31 00:00:00'
      )
    ) as again_from
  from ended
  left join with_previous as tries
    on
      ended.cluster = tries.cluster
      and ended.topic = tries.topic
      and ended.consumer_group = tries.consumer_group
  group by ended.cluster, ended.topic, ended.consumer_group, ended.ended_at, ended.subscribed_again_from
  having again_from > ended.ended_at
),

-- The times in between.
with_subscription as (
  select
    cluster,
    topic,
    consumer_group,
    lag(again_from, 1, timestamp '1970-01-01 00:00:00') over (
      partition by cluster, topic, consumer_group order by ended_at
    ) as from_time,
    ended_at - interval '0.000001' second as to_time
  from without_subscription
  union all
  select
    cluster,
    topic,
    consumer_group,
    max(again_from) as from_time,
    timestamp '9999-12-31 00:00:00' as to_time
  from without_subscription
  group by cluster, topic, consumer_group
),

subscribing as (
  select
    periods.cluster,
    periods.topic,
    periods.consumer_group,
    greatest(periods.expected_from, with_subscription.from_time) as expected_from,
    least(periods.expected_to, with_subscription.to_time) as expected_to
  from periods
  left join with_subscription
    on
      periods.cluster = with_subscription.cluster
      and periods.topic = with_subscription.topic
      and periods.consumer_group = with_subscription.consumer_group
  where
    with_subscription.cluster is null
    or greatest(periods.expected_from, with_subscription.from_time) <= least(periods.expected_to, with_subscription.to_time)
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

select * from subscribing
union distinct
select * from overrides

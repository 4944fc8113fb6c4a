-- One row a stretch of time in which a group is expected to consume what is published on a topic, bounds included:
-- the union of [attempt, attempt + look-back] over its attempts there. Later attempts never change the past.
with attempts as (
  select
    cluster,
    topic,
    consumer_group,
    min(occurred_at) as first_at,
    max(occurred_at) as last_at
  from {{ ref('fct_consume_attempts') }}
  where topic is not null and consumer_group is not null
  -- A day is never longer than the look-back, so its first and last attempt stand for all of it.
  group by cluster, topic, consumer_group, date(occurred_at)
),

with_previous as (
  select
    *,
    lag(last_at) over (partition by cluster, topic, consumer_group order by first_at) as previous_at
  from attempts
),

numbered as (
  select
    *,
    count_if(previous_at is null or first_at > previous_at + {{ expected_group_lookback() }}) over (
      partition by cluster, topic, consumer_group order by first_at
    ) as stretch
  from with_previous
),

traced as (
  select
    cluster,
    topic,
    consumer_group,
    min(first_at) as expected_from,
    max(last_at) + {{ expected_group_lookback() }} as expected_to
  from numbered
  group by cluster, topic, consumer_group, stretch
),

stated as (
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
union all
select * from stated

-- One row per objective and pair of windows that end at the watermark: (cluster, objective_name, long_seconds).
with windows as (
  select *
  from
    values
    (3600, 300, 0.02d, 'page'),
    (21600, 1800, 0.05d, 'page'),
    (259200, 21600, 0.10d, 'ticket')
      as pairs (long_seconds, short_seconds, budget_share, severity)
),

objectives as (
  select
    stated.*,
    watermarks.watermark,
    windows.long_seconds,
    windows.short_seconds,
    windows.severity,
    -- The burn at which the long window alone uses up `budget_share` of the budget of all window_days.
    windows.budget_share * stated.window_days * 86400 / windows.long_seconds as threshold
  from {{ ref('slo_objectives') }} as stated
  inner join {{ ref('int_watermarks') }} as watermarks
    on stated.cluster = watermarks.cluster
  cross join windows
),

-- The events that the objectives count, one row per event, with the time at which it became known.
events as (
  select
    cluster,
    'consume_success' as indicator,
    topic,
    consumer_group,
    coalesce(ended_at, occurred_at) as known_at,
    outcome = 'success' as is_success,
    cast(null as double) as latency_ms
  from {{ recent_rows(ref('fct_consume_attempts'), 'consume_success', ref('slo_objectives')) }}
  where has_end
  union all
  select
    cluster,
    'delivery_success' as indicator,
    topic,
    consumer_group,
    decided_at as known_at,
    outcome = 'succeeded' as is_success,
    cast(null as double) as latency_ms
  from {{ recent_rows(ref('fct_deliveries'), 'delivery_success', ref('slo_objectives')) }}
  where decided_at is not null
  union all
  select
    cluster,
    'end_to_end_latency' as indicator,
    topic,
    consumer_group,
    succeeded_at as known_at,
    true as is_success,
    cast(end_to_end_ms as double) as latency_ms
  from {{ recent_rows(ref('fct_deliveries'), 'end_to_end_latency', ref('slo_objectives')) }}
  where end_to_end_ms is not null
  union all
  select
    cluster,
    'send_latency' as indicator,
    topic,
    cast(null as string) as consumer_group,
    sent_at as known_at,
    true as is_success,
    cost_ms as latency_ms
  from {{ recent_rows(ref('fct_sends'), 'send_latency', ref('slo_objectives')) }}
  where cost_ms is not null
),

judged as (
  select
    objectives.cluster,
    objectives.objective_name,
    objectives.long_seconds,
    events.known_at < objectives.watermark as is_long,
    events.known_at < objectives.watermark
    and events.known_at >= timestampadd(second, -objectives.short_seconds, objectives.watermark) as is_short,
    not(events.is_success and coalesce(events.latency_ms <= objectives.latency_ms, true)) as is_bad
  from objectives
  left join events
    on
      objectives.cluster = events.cluster
      and objectives.indicator = events.indicator
      and coalesce(objectives.topic = events.topic, objectives.topic is null)
      and coalesce(objectives.consumer_group = events.consumer_group, objectives.consumer_group is null)
      and events.known_at >= timestampadd(second, -objectives.long_seconds, objectives.watermark)
),

counted as (
  select
    cluster,
    objective_name,
    long_seconds,
    count_if(is_long) as long_events,
    count_if(is_long and is_bad) as long_bad,
    count_if(is_short) as short_events,
    count_if(is_short and is_bad) as short_bad,
    count_if(not is_long and is_bad) as later_bad
  from judged
  group by cluster, objective_name, long_seconds
)

select
  cluster,
  objective_name,
  long_seconds,
  objectives.short_seconds,
  objectives.severity,
  objectives.indicator,
  objectives.topic,
  objectives.consumer_group,
  objectives.objective,
  objectives.window_days,
  objectives.latency_ms,
  objectives.watermark,
  counted.long_events,
  counted.long_bad,
  counted.short_events,
  counted.short_bad,
  counted.later_bad,
  counted.long_bad / nullif(counted.long_events, 0) / (1 - objectives.objective) as long_burn,
  counted.short_bad / nullif(counted.short_events, 0) / (1 - objectives.objective) as short_burn,
  objectives.threshold,
  coalesce(
    counted.long_events >= coalesce(objectives.minimum_events, 1)
    and counted.long_bad >= objectives.threshold * (1 - objectives.objective) * counted.long_events
    and counted.short_bad >= objectives.threshold * (1 - objectives.objective) * counted.short_events
    and counted.short_bad > 0,
    false
  ) as is_burning
from objectives
inner join counted using (cluster, objective_name, long_seconds)

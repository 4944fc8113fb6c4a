-- One row per change of the context in this run, which messages without a new record depend on: a period in which a group is
-- expected, a subscription, the progress of a group, how far it is behind, a look-up of a message, one that found a dead letter
-- before or now, an hour of incomplete traces, a broadcast group, the start of the history, an ingest gap.
{{ config(only_in='incremental_run') }}

with periods as (
  select
    coalesce(expected.cluster, expected_before.cluster) as cluster,
    coalesce(expected.topic, expected_before.topic) as topic,
    coalesce(expected.consumer_group, expected_before.consumer_group) as consumer_group,
    -- Of two periods with the same start, only the time between their ends has changed.
    case
      when expected.cluster is not null and expected_before.cluster is not null
        then least(expected.expected_to, expected_before.expected_to)
      else coalesce(expected.expected_from, expected_before.expected_from)
    end as changed_from,
    greatest(expected.expected_to, expected_before.expected_to) as changed_to
  from {{ ref('int_expected_groups') }} as expected
  full outer join {{ published('int_expected_groups') }} as expected_before
    on
      expected.cluster = expected_before.cluster
      and expected.topic = expected_before.topic
      and expected.consumer_group = expected_before.consumer_group
      and expected.expected_from = expected_before.expected_from
  where not expected.expected_to <=> expected_before.expected_to
),

-- A subscription that ended has changed for what was published since; the rest of a row never changes.
subscriptions as (
  select
    coalesce(known.cluster, known_before.cluster) as cluster,
    coalesce(known.topic, known_before.topic) as topic,
    coalesce(known.consumer_group, known_before.consumer_group) as consumer_group,
    case
      when known.cluster is not null and known_before.cluster is not null
        then least(known.subscribed_to, known_before.subscribed_to)
      else coalesce(known.subscribed_from, known_before.subscribed_from)
    end as changed_from,
    greatest(known.subscribed_to, known_before.subscribed_to) as changed_to
  from {{ ref('int_subscriptions') }} as known
  full outer join {{ published('int_subscriptions') }} as known_before
    on
      known.cluster = known_before.cluster
      and known.broker = known_before.broker
      and known.topic = known_before.topic
      and known.consumer_group = known_before.consumer_group
      and known.tag_filter = known_before.tag_filter
      and known.tags <=> known_before.tags
      and known.subscribed_from = known_before.subscribed_from
  where not known.subscribed_to <=> known_before.subscribed_to
),

-- Each time in the progress of a group decides on the messages before or after it. So a time that moved has changed what is
-- between its two values. Where the progress is new or unknown now, everything has changed.
progress as (
  select
    coalesce(known.cluster, known_before.cluster) as cluster,
    coalesce(known.topic, known_before.topic) as topic,
    coalesce(known.consumer_group, known_before.consumer_group) as consumer_group,
    known.cluster is null or known_before.cluster is null or not known.deleted_at <=> known_before.deleted_at as is_all,
    array(
      struct(known.passed_to as new_time, known_before.passed_to as old_time),
      struct(known.not_reached_from as new_time, known_before.not_reached_from as old_time),
      struct(known.first_attempt_at as new_time, known_before.first_attempt_at as old_time),
      struct(known.last_attempt_at as new_time, known_before.last_attempt_at as old_time)
    ) as times
  from {{ ref('int_group_progress') }} as known
  full outer join {{ published('int_group_progress') }} as known_before
    on
      known.cluster = known_before.cluster
      and known.topic = known_before.topic
      and known.consumer_group = known_before.consumer_group
),

progress_changes as (
  select distinct
    cluster,
    topic,
    consumer_group,
    case when is_all then timestamp '1970-01-01 00:00:00' else least(moved.new_time, moved.old_time) end as changed_from,
    case when is_all then timestamp '9999-12-31 00:00:00' else greatest(moved.new_time, moved.old_time) end as changed_to
  from progress
    lateral view explode(times) as moved
  where is_all or not moved.new_time <=> moved.old_time
),

-- Groups with a backlog whose messages_behind, rounded to one significant digit, has changed: a backlog that grows is not
-- computed again in each run.
backlogs as (
  select
    messages.cluster,
    messages.topic,
    messages.expected_group as consumer_group,
    messages.first_hour,
    messages.last_hour
  from (
    select
      cluster,
      topic,
      expected_group,
      min(hour) as first_hour,
      max(hour) as last_hour
    from {{ published('orphan_rate') }}
    where in_backlog + backlog_overdue > 0
    group by cluster, topic, expected_group
  ) as messages
  left join {{ ref('int_group_progress') }} as known
    on
      messages.cluster = known.cluster
      and messages.topic = known.topic
      and messages.expected_group = known.consumer_group
  left join {{ published('int_group_progress') }} as known_before
    on
      messages.cluster = known_before.cluster
      and messages.topic = known_before.topic
      and messages.expected_group = known_before.consumer_group
  where not {{ one_digit('known.messages_behind') }} <=> {{ one_digit('known_before.messages_behind') }}
),

-- A row is gone only where retention has dropped its message. A message is looked up within a week of its publication.
checks as (
  select
    known.cluster,
    known.topic,
    known.msg_id,
    known.consumer_group,
    known.checked_at,
    known.state = 'dead_letter' or known_before.state <=> 'dead_letter' as is_dead_letter
  from {{ ref('int_message_checks') }} as known
  left join {{ published('int_message_checks') }} as known_before
    on
      known.cluster = known_before.cluster
      and known.topic = known_before.topic
      and known.msg_id = known_before.msg_id
      and known.consumer_group = known_before.consumer_group
  where
    not (
      known.checked_at <=> known_before.checked_at
      and known.state <=> known_before.state
      and known.is_passed <=> known_before.is_passed
      and known.skip_evidence <=> known_before.skip_evidence
      and known.is_dropped_repeatedly <=> known_before.is_dropped_repeatedly
    )
),

-- Hours in which the trace of a group's attempts is incomplete now, or was.
incomplete as (
  select
    coalesce(known.cluster, known_before.cluster) as cluster,
    coalesce(known.topic, known_before.topic) as topic,
    coalesce(known.consumer_group, known_before.consumer_group) as consumer_group,
    coalesce(known.hour, known_before.hour) as hour
  from (
    select
      *,
      coalesce(ends_without_begin + begins_without_end > 0, false) as is_incomplete
    from {{ ref('int_consume_hours') }}
    where {{ hour_is_in('changed') }}
  ) as known
  full outer join (
    select
      *,
      coalesce(ends_without_begin + begins_without_end > 0, false) as is_incomplete
    from {{ published('int_consume_hours') }}
    where {{ hour_is_in('changed') }}
  ) as known_before
    on
      known.cluster = known_before.cluster
      and known.topic = known_before.topic
      and known.consumer_group = known_before.consumer_group
      and known.hour = known_before.hour
  where coalesce(known.is_incomplete, false) != coalesce(known_before.is_incomplete, false)
),

history as (
  select
    cluster,
    min(first_attempt_at) as history_from
  from {{ ref('int_consume_hours') }}
  group by cluster
),

history_before as (
  select
    cluster,
    min(first_attempt_at) as history_from
  from {{ published('int_consume_hours') }}
  group by cluster
)

select
  'expected' as kind,
  cluster,
  topic,
  consumer_group,
  cast(null as string) as msg_id,
  changed_from,
  changed_to
from periods
union all
select
  'subscription' as kind,
  cluster,
  topic,
  consumer_group,
  cast(null as string) as msg_id,
  changed_from,
  changed_to
from subscriptions
union all
select
  'progress' as kind,
  cluster,
  topic,
  consumer_group,
  cast(null as string) as msg_id,
  changed_from,
  changed_to
from progress_changes
union all
select
  'backlog' as kind,
  cluster,
  topic,
  consumer_group,
  cast(null as string) as msg_id,
  first_hour as changed_from,
  last_hour as changed_to
from backlogs
union all
select
  'check' as kind,
  cluster,
  topic,
  consumer_group,
  msg_id,
  checked_at - interval '8' day as changed_from,
  checked_at as changed_to
from checks
union all
select
  'dead_letter' as kind,
  cluster,
  topic,
  consumer_group,
  msg_id,
  checked_at - interval '8' day as changed_from,
  checked_at as changed_to
from checks
where is_dead_letter
union all
select
  'incomplete' as kind,
  cluster,
  topic,
  consumer_group,
  cast(null as string) as msg_id,
  hour as changed_from,
  hour as changed_to
from incomplete
union all
select
  'broadcast' as kind,
  coalesce(broadcast.cluster, broadcast_before.cluster) as cluster,
  cast(null as string) as topic,
  coalesce(broadcast.consumer_group, broadcast_before.consumer_group) as consumer_group,
  cast(null as string) as msg_id,
  cast(null as timestamp) as changed_from,
  cast(null as timestamp) as changed_to
from {{ ref('int_broadcast_groups') }} as broadcast
full outer join {{ published('int_broadcast_groups') }} as broadcast_before
  on
    broadcast.cluster = broadcast_before.cluster
    and broadcast.consumer_group = broadcast_before.consumer_group
    and broadcast.broadcast_from = broadcast_before.broadcast_from
where not broadcast.broadcast_to <=> broadcast_before.broadcast_to
union all
select
  'history' as kind,
  history.cluster,
  cast(null as string) as topic,
  cast(null as string) as consumer_group,
  cast(null as string) as msg_id,
  least(history.history_from, history_before.history_from) as changed_from,
  greatest(history.history_from, history_before.history_from) as changed_to
from history
inner join history_before
  on history.cluster = history_before.cluster
where history.history_from != history_before.history_from
union all
select
  'gap' as kind,
  gaps.cluster,
  cast(null as string) as topic,
  cast(null as string) as consumer_group,
  cast(null as string) as msg_id,
  gaps.gap_from as changed_from,
  gaps.gap_to as changed_to
from {{ ref('int_ingest_gaps') }} as gaps
left anti join {{ published('int_ingest_gaps') }} as known
  on gaps.cluster = known.cluster and gaps.gap_from <=> known.gap_from and gaps.gap_to = known.gap_to

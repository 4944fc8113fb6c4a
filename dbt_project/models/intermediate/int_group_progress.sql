-- One row per topic and consumer group that was ever expected to consume it: (cluster, topic, consumer_group), with what the
-- brokers know of the group's offsets as of the watermark, or knew when the group was deleted. Published, because the next
-- incremental run compares its own rows with these.
{{ config(materialized='audited_table', contract={'enforced': true}) }}
with facts as (
  select * from {{ ref('int_facts_as_of') }}
),

expected as (
  select distinct
    cluster,
    topic,
    consumer_group
  from {{ ref('int_expected_groups') }}
),

existing_groups as (
  select distinct
    known.cluster,
    known.group_name
  from {{ ref('stg_groups') }} as known
  inner join facts
    on known.cluster = facts.cluster and {{ is_current_as_of('known') }}
),

committed as (
  select * from {{ ref('int_committed_offsets') }}
),

-- The ends of the queues at the collections that saw them change.
ends as (
  select
    offsets.cluster,
    offsets.broker,
    offsets.topic_name,
    offsets.queues,
    offsets.valid_from,
    facts.as_of,
    {{ is_current_as_of('offsets') }} as is_current
  from {{ ref('stg_topic_offsets') }} as offsets
  inner join facts
    on
      offsets.cluster = facts.cluster
      and offsets.valid_from <= facts.as_of
      and (offsets.valid_to is null or offsets.valid_to > facts.as_of - {{ expected_group_lookback() }})
),

-- A group may have no offset on a broker that has messages of the topic.
with_messages as (
  select distinct
    cluster,
    broker,
    topic_name
  from ends
  where is_current and exists(queues, queue -> queue.max_offset > queue.min_offset)
),

on_brokers as (
  select
    cluster,
    broker,
    group_name,
    topic_name,
    topic,
    consumer_group
  from committed
  union distinct
  select
    with_messages.cluster,
    with_messages.broker,
    committed.group_name,
    committed.topic_name,
    committed.topic,
    committed.consumer_group
  from with_messages
  inner join committed
    on with_messages.cluster = committed.cluster and with_messages.topic_name = committed.topic_name
),

-- No queue ended beyond the offset of the group. Of a queue without a committed offset nothing is known.
compared as (
  select
    committed.cluster,
    committed.broker,
    committed.group_name,
    committed.topic_name,
    ends.valid_from,
    ends.as_of,
    ends.is_current,
    forall(
      ends.queues,
      queue -> coalesce(committed.offset_of_queue[queue.queue_id] >= queue.max_offset, queue.max_offset = queue.min_offset)
    ) as is_passed
  from committed
  inner join ends
    on committed.cluster = ends.cluster and committed.broker = ends.broker and committed.topic_name = ends.topic_name
),

passed as (
  select
    compared.cluster,
    compared.broker,
    compared.group_name,
    compared.topic_name,
    max(
      case
        -- What is recorded has stood for longer than records are behind, so nothing was stored since.
        when
          compared.is_current
          and compared.valid_from <= compared.as_of - {{ limit('offsets_lag') }}
          and not array_contains(observations.unanswered_topics, compared.topic_name)
          then compared.as_of
        else compared.valid_from
      end
    ) as passed_to
  from compared
  left join {{ ref('stg_broker_observations') }} as observations
    on
      compared.cluster = observations.cluster
      and compared.broker = observations.broker
      and compared.as_of = observations.observed_at
  where compared.is_passed
  group by compared.cluster, compared.broker, compared.group_name, compared.topic_name
),

-- The group has not moved since its offsets were recorded. They were at most the ends of the queues at that time.
standing as (
  select
    committed.cluster,
    committed.broker,
    committed.group_name,
    committed.topic_name,
    committed.valid_from as not_reached_from
  from committed
  inner join facts
    on committed.cluster = facts.cluster and committed.valid_from <= facts.as_of - {{ limit('offsets_lag') }}
  inner join {{ ref('stg_broker_observations') }} as observations
    on
      committed.cluster = observations.cluster
      and committed.broker = observations.broker
      and facts.as_of = observations.observed_at
  where observations.is_group_offsets_known and not array_contains(observations.unanswered_topics, committed.topic_name)
),

-- What is between the offset of the group and the end of the queue. It is unknown if it is in one of the queues.
behind_on_brokers as (
  select
    on_brokers.cluster,
    on_brokers.topic,
    on_brokers.consumer_group,
    on_brokers.group_name,
    on_brokers.topic_name,
    case
      when observations.is_group_offsets_known and not array_contains(observations.unanswered_topics, on_brokers.topic_name)
        then aggregate(
          ends.queues,
          0L,
          (total, queue) -> total + case
            when committed.offset_of_queue[queue.queue_id] < queue.max_offset
              then queue.max_offset - committed.offset_of_queue[queue.queue_id]
            when committed.offset_of_queue[queue.queue_id] >= queue.max_offset or queue.max_offset = queue.min_offset then 0L
          end
        )
    end as messages
  from on_brokers
  left join committed using (cluster, broker, group_name, topic_name)
  left join ends
    on
      on_brokers.cluster = ends.cluster
      and on_brokers.broker = ends.broker
      and on_brokers.topic_name = ends.topic_name
      and ends.is_current
  left join {{ ref('stg_broker_observations') }} as observations
    on
      on_brokers.cluster = observations.cluster
      and on_brokers.broker = observations.broker
      and ends.as_of = observations.observed_at
),

-- If groups or topics of several namespaces have these names, it is not known which offsets count.
behind as (
  select
    cluster,
    topic,
    consumer_group,
    case
      when bool_and(messages is not null) and count(distinct group_name, topic_name) = 1 then sum(messages)
    end as messages_behind
  from behind_on_brokers
  group by cluster, topic, consumer_group
),

progress as (
  select
    on_brokers.cluster,
    on_brokers.topic,
    on_brokers.consumer_group,
    min(coalesce(passed.passed_to, timestamp '1970-01-01 00:00:00')) as passed_to,
    max(coalesce(standing.not_reached_from, timestamp '9999-12-31 00:00:00')) as not_reached_from
  from on_brokers
  left join passed using (cluster, broker, group_name, topic_name)
  left join standing using (cluster, broker, group_name, topic_name)
  group by on_brokers.cluster, on_brokers.topic, on_brokers.consumer_group
),

-- Groups that no broker knows any more.
deleted_groups as (
  select
    known.cluster,
    known.group_name,
    max(known.valid_to) as deleted_at
  from {{ ref('stg_groups') }} as known
  inner join facts
    on known.cluster = facts.cluster and known.valid_to <= facts.as_of
  left anti join existing_groups
    on known.cluster = existing_groups.cluster and known.group_name = existing_groups.group_name
  left anti join {{ ref('stg_consumers') }} as consumers
    on
      known.cluster = consumers.cluster
      and known.group_name = consumers.group_name
      and consumers.message_model = 'BROADCASTING'
      and facts.as_of >= consumers.valid_from
  group by known.cluster, known.group_name
),

-- Their last offsets; the broker may keep them after the group.
last_committed as (
  select
    offsets.cluster,
    offsets.broker,
    offsets.topic,
    offsets.consumer_group,
    deleted_groups.deleted_at,
    max(offsets.valid_from) as recorded_at,
    max_by(coalesce(offsets.valid_to, timestamp '9999-12-31 00:00:00'), offsets.valid_from) as recorded_to
  from {{ ref('stg_group_offsets') }} as offsets
  inner join deleted_groups
    on
      offsets.cluster = deleted_groups.cluster
      and offsets.group_name = deleted_groups.group_name
      and offsets.valid_from < deleted_groups.deleted_at
  inner join expected
    on
      offsets.cluster = expected.cluster
      and offsets.topic = expected.topic
      and offsets.consumer_group = expected.consumer_group
  group by
    offsets.cluster,
    offsets.broker,
    offsets.group_name,
    offsets.topic_name,
    offsets.topic,
    offsets.consumer_group,
    deleted_groups.deleted_at
),

-- What was published after the deletion, or since an offset that had not moved until then, was not reached.
deleted as (
  select
    last_committed.cluster,
    last_committed.topic,
    last_committed.consumer_group,
    max(
      case
        when
          last_committed.recorded_at <= last_committed.deleted_at - {{ limit('offsets_lag') }}
          and last_committed.recorded_to > last_committed.deleted_at
          and observations.is_group_offsets_known
          then last_committed.recorded_at
        else last_committed.deleted_at
      end
    ) as not_reached_from,
    max(last_committed.deleted_at) as deleted_at
  from last_committed
  left join {{ ref('stg_broker_observations') }} as observations
    on
      last_committed.cluster = observations.cluster
      and last_committed.broker = observations.broker
      and last_committed.deleted_at = observations.observed_at
  left anti join committed
    on
      last_committed.cluster = committed.cluster
      and last_committed.topic = committed.topic
      and last_committed.consumer_group = committed.consumer_group
  group by last_committed.cluster, last_committed.topic, last_committed.consumer_group
),

known as (
  select
    cluster,
    topic,
    consumer_group,
    passed_to,
    not_reached_from,
    cast(null as timestamp) as deleted_at,
    messages_behind
  from progress
  left join behind using (cluster, topic, consumer_group)
  union all
  select
    cluster,
    topic,
    consumer_group,
    timestamp '1970-01-01 00:00:00' as passed_to,
    not_reached_from,
    deleted_at,
    cast(null as bigint) as messages_behind
  from deleted
),

attempts as (
  select
    cluster,
    topic,
    consumer_group,
    min(first_attempt_at) as first_attempt_at,
    max(last_attempt_at) as last_attempt_at
  from {{ ref('int_consume_hours') }}
  group by cluster, topic, consumer_group
)

select
  known.cluster,
  known.topic,
  known.consumer_group,
  known.passed_to,
  known.not_reached_from,
  known.deleted_at,
  known.messages_behind,
  coalesce(attempts.first_attempt_at, timestamp '1970-01-01 00:00:00') as first_attempt_at,
  coalesce(attempts.last_attempt_at, timestamp '1970-01-01 00:00:00') as last_attempt_at
from known
left join attempts
  on
    known.cluster = attempts.cluster
    and known.topic = attempts.topic
    and known.consumer_group = attempts.consumer_group

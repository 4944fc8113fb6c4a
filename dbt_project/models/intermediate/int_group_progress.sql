-- One row per topic and consumer group that was ever expected to consume it: (cluster, topic, consumer_group), with what the
-- brokers know of the group's offsets as of the watermark. Published, because the next incremental run compares its own rows with
-- these.
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

-- Their offsets are in the clients; a broker may have old ones.
broadcasting as (
  select distinct
    consumers.cluster,
    consumers.group_name
  from {{ ref('stg_consumers') }} as consumers
  inner join facts
    on consumers.cluster = facts.cluster and {{ is_current_as_of('consumers') }}
  where consumers.message_model = 'BROADCASTING'
),

committed as (
  select
    offsets.cluster,
    offsets.broker,
    offsets.group_name,
    offsets.topic_name,
    offsets.topic,
    offsets.consumer_group,
    offsets.valid_from,
    map_from_entries(transform(offsets.queues, queue -> struct(queue.queue_id, queue.consumer_offset))) as offset_of_queue
  from {{ ref('stg_group_offsets') }} as offsets
  inner join facts
    on offsets.cluster = facts.cluster and {{ is_current_as_of('offsets') }}
  inner join expected
    on
      offsets.cluster = expected.cluster
      and offsets.topic = expected.topic
      and offsets.consumer_group = expected.consumer_group
  inner join existing_groups
    on offsets.cluster = existing_groups.cluster and offsets.group_name = existing_groups.group_name
  left join broadcasting
    on offsets.cluster = broadcasting.cluster and offsets.group_name = broadcasting.group_name
  where broadcasting.cluster is null
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

attempts as (
  select
    cluster,
    topic,
    consumer_group,
    max(last_attempt_at) as last_attempt_at
  from {{ ref('int_consume_hours') }}
  group by cluster, topic, consumer_group
)

select
  progress.cluster,
  progress.topic,
  progress.consumer_group,
  progress.passed_to,
  progress.not_reached_from,
  coalesce(attempts.last_attempt_at, timestamp '1970-01-01 00:00:00') as last_attempt_at
from progress
left join attempts
  on
    progress.cluster = attempts.cluster
    and progress.topic = attempts.topic
    and progress.consumer_group = attempts.consumer_group

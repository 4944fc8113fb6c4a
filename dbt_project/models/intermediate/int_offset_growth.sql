-- One row per side, topic, consumer group and hour: (cluster, side, topic, consumer_group, hour), by how much the offsets grew:
-- the ends of the queues (producer), or the committed offsets of a group (consumer). Each hour for which an offset is recorded at
-- one of its bounds has a row.
{{ config(materialized='working_table', schema='changes') }}
with facts as (
  select * from {{ ref('int_facts_as_of') }}
),

records as (
  select
    'producer' as side,
    cluster,
    broker,
    topic_name,
    cast(null as string) as group_name,
    {{ without_prefixes('topic_name') }} as topic,
    cast(null as string) as consumer_group,
    transform(queues, queue -> struct(queue.queue_id, queue.max_offset as next_offset)) as queues,
    valid_from,
    valid_to
  from {{ ref('stg_topic_offsets') }}
  union all
  select
    'consumer' as side,
    cluster,
    broker,
    topic_name,
    group_name,
    topic,
    consumer_group,
    transform(queues, queue -> struct(queue.queue_id, queue.consumer_offset as next_offset)) as queues,
    valid_from,
    valid_to
  from {{ ref('stg_group_offsets') }}
),

-- The record that is valid at a bound, as of the watermark. After the last collection it is valid for as long as a record may be
-- behind.
periods as (
  select
    records.*,
    explode(
      {{ bounds_in(
        'records.valid_from',
        "case when records.valid_to <= facts.as_of then records.valid_to else facts.as_of + " ~ limit('offsets_lag') ~ " end"
      ) }}
    ) as bound
  from records
  inner join facts
    on records.cluster = facts.cluster and records.valid_from <= facts.as_of
  left anti join {{ ref('int_trace_topics') }} as trace_topics
    on records.cluster = trace_topics.cluster and records.topic_name = trace_topics.topic
  where {{ may_have_bound_of('covered', 'records.valid_from', 'records.valid_to') }}
),

at_bounds as (
  select
    side,
    cluster,
    broker,
    topic_name,
    group_name,
    topic,
    consumer_group,
    queues,
    bound
  from periods
  where {{ is_bound_of('covered', 'bound') }}
),

-- The answers in the time before a bound in which a record may be behind: by broker a list of what each of them left out.
asked as (
  select
    observations.cluster,
    observations.broker,
    observations.unanswered_topics,
    case when observations.is_group_offsets_known then cast(array() as array<string>) end as unanswered_groups,
    explode(
      {{ bounds_in('observations.observed_at', 'observations.observed_at + ' ~ limit('offsets_lag')) }}
    ) as bound
  from {{ ref('stg_broker_observations') }} as observations
  inner join facts
    on observations.cluster = facts.cluster and observations.observed_at <= facts.as_of
),

answers_of_brokers as (
  select
    cluster,
    broker,
    bound,
    collect_list(unanswered_topics) as of_producer,
    collect_list(unanswered_groups) as of_consumer
  from asked
  where {{ is_bound_of('covered', 'bound') }}
  group by cluster, broker, bound
),

answers as (
  select
    cluster,
    bound,
    collect_list(struct(broker, of_producer as unanswered)) as of_producer,
    collect_list(struct(broker, of_consumer as unanswered)) as of_consumer
  from answers_of_brokers
  group by cluster, bound
),

-- A broker that is not registered any more is not asked.
recorded as (
  select
    at_bounds.*,
    coalesce(
      forall(
        case when at_bounds.side = 'producer' then answers.of_producer else answers.of_consumer end,
        answer -> exists(answer.unanswered, topics -> not array_contains(topics, at_bounds.topic_name))
      ),
      false
    ) as is_recorded
  from at_bounds
  left join answers
    on at_bounds.cluster = answers.cluster and at_bounds.bound = answers.bound
  where
    answers.bound is null
    or exists(
      case when at_bounds.side = 'producer' then answers.of_producer else answers.of_consumer end,
      answer -> answer.broker = at_bounds.broker
    )
),

-- A topic that a broker did not have at the first bound began at 0. The first offset that a group commits is not known.
absent as (
  select
    ends.side,
    ends.cluster,
    ends.broker,
    ends.topic_name,
    ends.bound - interval '1' hour as bound
  from at_bounds as ends
  where ends.side = 'producer'
),

absent_recorded as (
  select distinct
    absent.cluster,
    absent.broker,
    absent.topic_name,
    absent.bound
  from absent
  inner join answers
    on absent.cluster = answers.cluster and absent.bound = answers.bound
  where
    exists(answers.of_producer, answer -> answer.broker = absent.broker)
    and forall(
      answers.of_producer,
      answer -> exists(answer.unanswered, topics -> not array_contains(topics, absent.topic_name))
    )
),

hours as (
  select
    coalesce(starts.side, ends.side) as side,
    coalesce(starts.cluster, ends.cluster) as cluster,
    coalesce(starts.broker, ends.broker) as broker,
    coalesce(starts.topic_name, ends.topic_name) as topic_name,
    coalesce(starts.topic, ends.topic) as topic,
    coalesce(starts.consumer_group, ends.consumer_group) as consumer_group,
    coalesce(starts.bound, ends.bound - interval '1' hour) as hour,
    starts.is_recorded as is_start_recorded,
    coalesce(ends.is_recorded, false) as is_end_recorded,
    coalesce(
      map_from_entries(transform(starts.queues, queue -> struct(queue.queue_id, queue.next_offset))),
      cast(map() as map <int, bigint>)
    ) as offsets_before,
    coalesce(
      map_from_entries(transform(ends.queues, queue -> struct(queue.queue_id, queue.next_offset))),
      cast(map() as map <int, bigint>)
    ) as offsets_after
  from recorded as starts
  full outer join recorded as ends
    on
      starts.side = ends.side
      and starts.cluster = ends.cluster
      and starts.broker = ends.broker
      and starts.topic_name = ends.topic_name
      and starts.group_name <=> ends.group_name
      and starts.bound + interval '1' hour = ends.bound
),

by_broker as (
  select
    hours.side,
    hours.cluster,
    hours.topic,
    hours.consumer_group,
    hours.hour,
    hours.is_end_recorded
    and coalesce(hours.is_start_recorded, absent_recorded.cluster is not null)
    and (
      hours.side = 'producer'
      or forall(map_keys(hours.offsets_after), queue_id -> map_contains_key(hours.offsets_before, queue_id))
    ) as is_recorded,
    exists(
      map_keys(hours.offsets_before),
      queue_id -> coalesce(hours.offsets_after[queue_id] < hours.offsets_before[queue_id], true)
    ) as is_reset,
    aggregate(map_values(hours.offsets_after), 0L, (total, next_offset) -> total + next_offset)
    - aggregate(map_values(hours.offsets_before), 0L, (total, next_offset) -> total + next_offset) as growth
  from hours
  left join absent_recorded
    on
      hours.side = 'producer'
      and hours.cluster = absent_recorded.cluster
      and hours.broker = absent_recorded.broker
      and hours.topic_name = absent_recorded.topic_name
      and hours.hour = absent_recorded.bound
)

select
  cluster,
  side,
  topic,
  consumer_group,
  hour,
  case when bool_and(is_recorded) and not bool_or(is_reset) then sum(growth) end as messages,
  case
    when not bool_and(is_recorded) then 'not_recorded'
    when bool_or(is_reset) then 'offsets_reset'
  end as unknown_reason
from by_broker
where topic is not null and (side = 'producer' or consumer_group is not null)
group by cluster, side, topic, consumer_group, hour

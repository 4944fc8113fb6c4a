-- One row per message and consumer group that was looked up at a broker: (cluster, topic, msg_id, consumer_group), the last
-- answer as of the watermark, and what the offsets of the group in the message's queue say since. Published, because the next
-- incremental run compares its own rows with these.
{{ config(materialized='audited_table', contract={'enforced': true}) }}
with facts as (
  select * from {{ ref('int_facts_as_of') }}
),

known as (
  select
    checks.*,
    row_number() over (
      partition by checks.cluster, checks.topic, checks.msg_id, checks.consumer_group
      order by checks.checked_at desc, checks.state asc, checks.broker asc
    ) as number
  from {{ ref('stg_message_checks') }} as checks
  inner join facts
    on checks.cluster = facts.cluster and checks.checked_at <= facts.as_of
  -- The client's clock may be ahead of that of the job.
  where {{ is_retained("checks.checked_at + interval '1' hour") }}
),

newest as (
  select
    *,
    least(stored_at, checked_at) as traced_from
  from known
  where number = 1
),

-- The recorded offsets of the group in the queue of the message, as of the watermark, each with the one before.
offsets as (
  select
    newest.cluster,
    newest.topic,
    newest.msg_id,
    newest.consumer_group,
    newest.queue_offset,
    newest.traced_from,
    committed.broker,
    committed.group_name,
    committed.topic_name,
    committed.valid_from,
    get(filter(committed.queues, queue -> queue.queue_id = newest.queue_id), 0) as queue
  from newest
  inner join facts
    on newest.cluster = facts.cluster
  inner join {{ ref('stg_group_offsets') }} as committed
    on
      newest.cluster = committed.cluster
      and newest.broker = committed.broker
      and newest.topic = committed.topic
      and newest.consumer_group = committed.consumer_group
      and facts.as_of >= committed.valid_from
  where newest.queue_offset is not null
),

in_order as (
  select
    *,
    queue.consumer_offset,
    queue.pull_offset,
    lag(valid_from) over (partition by cluster, topic, msg_id, consumer_group order by valid_from) as previous_from,
    max(queue.consumer_offset) over (
      partition by cluster, topic, msg_id, consumer_group
      order by valid_from rows between unbounded preceding and 1 preceding
    ) as highest_before
  from offsets
),

-- If groups or topics of several namespaces have these names, it is not known which offsets count. Consumers that pop, as those
-- of gRPC do, move the offset beyond the pull offset again and again.
passed as (
  select
    cluster,
    topic,
    msg_id,
    consumer_group,
    max_by(consumer_offset, valid_from) > max(queue_offset) as is_passed,
    min(case when consumer_offset > queue_offset and valid_from >= traced_from then valid_from end) as passed_from,
    max(pull_offset) is not null as is_pull_offset_known,
    count_if(consumer_offset > pull_offset and consumer_offset > highest_before) as moved_beyond_pulled
  from in_order
  group by cluster, topic, msg_id, consumer_group
  having count(distinct group_name, topic_name) = 1
),

-- The offset passed the message at a collection, and no consumer of the group was connected then, nor at an earlier collection at
-- which the offset before was the current one: an offset that moved is recorded at most offsets_lag after the one before.
skipped as (
  select
    jumps.cluster,
    jumps.topic,
    jumps.msg_id,
    jumps.consumer_group,
    max(jumps.pull_offset) <= max(jumps.queue_offset) as is_not_pulled
  from in_order as jumps
  inner join {{ ref('stg_consumers') }} as consumers
    on
      jumps.cluster = consumers.cluster
      and jumps.broker = consumers.broker
      and jumps.group_name = consumers.group_name
      and not consumers.is_online
      and jumps.valid_from > consumers.valid_from
      and (consumers.valid_to is null or jumps.valid_from < consumers.valid_to)
  inner join {{ ref('stg_broker_observations') }} as observations
    on
      jumps.cluster = observations.cluster
      and jumps.broker = observations.broker
      and consumers.valid_from <= observations.observed_at
      and jumps.valid_from > observations.observed_at
      and (
        jumps.previous_from >= observations.observed_at
        or jumps.previous_from + {{ limit('offsets_lag') }} <= observations.observed_at
      )
      and observations.is_group_offsets_known
  where jumps.highest_before <= jumps.queue_offset and jumps.consumer_offset > jumps.queue_offset
  group by jumps.cluster, jumps.topic, jumps.msg_id, jumps.consumer_group
),

-- The periods from the storage of the message until the look-up with the same consumers of the group, and how many trace
-- producers they had: at most, and throughout.
connected as (
  select
    newest.cluster,
    newest.topic,
    newest.msg_id,
    newest.consumer_group,
    consumers.valid_from,
    bool_or(consumers.is_online) as is_online,
    max(consumers.connections) as consumers,
    max(producers.connections) as most_tracing,
    max(
      case
        when
          producers.valid_from <= greatest(consumers.valid_from, newest.traced_from)
          and (
            producers.valid_to is null
            or producers.valid_to >= consumers.valid_to
            or producers.valid_to > newest.checked_at
          )
          then producers.connections
      end
    ) as tracing_throughout
  from newest
  inner join {{ ref('stg_consumers') }} as consumers
    on
      newest.cluster = consumers.cluster
      and newest.broker = consumers.broker
      and newest.consumer_group = {{ without_prefixes('consumers.group_name') }}
      and newest.checked_at >= consumers.valid_from
      and (consumers.valid_to is null or newest.traced_from < consumers.valid_to)
  left join {{ ref('stg_producers') }} as producers
    on
      consumers.cluster = producers.cluster
      and consumers.group_name = producers.trace_of
      and producers.trace_role = 'CONSUME'
      and newest.checked_at >= producers.valid_from
      and (producers.valid_to is null or newest.traced_from < producers.valid_to)
      and (consumers.valid_to is null or consumers.valid_to > producers.valid_from)
      and (producers.valid_to is null or consumers.valid_from < producers.valid_to)
  group by newest.cluster, newest.topic, newest.msg_id, newest.consumer_group, consumers.valid_from
),

tracing as (
  select
    cluster,
    topic,
    msg_id,
    consumer_group,
    case
      when count(*) = 1 and max(tracing_throughout) >= max(consumers) and bool_and(is_online) then 'all'
      when max(most_tracing) > 0 and bool_or(is_online and coalesce(most_tracing, 0) < consumers) then 'some'
    end as tracing_clients
  from connected
  group by cluster, topic, msg_id, consumer_group
),

answered as (
  select
    newest.cluster,
    newest.topic,
    newest.msg_id,
    newest.consumer_group,
    newest.checked_at,
    newest.is_stored,
    newest.state,
    newest.held_as,
    newest.is_of_batch,
    newest.due_at,
    coalesce(passed.is_passed, false) as is_passed,
    case
      when passed.msg_id is null or skipped.msg_id is null then null
      when skipped.is_not_pulled and passed.moved_beyond_pulled = 1 then 'not_pulled'
      when skipped.is_not_pulled then 'not_pulled_moved_again'
      when not passed.is_pull_offset_known then 'pull_offset_unknown'
    end as skip_evidence,
    tracing.tracing_clients,
    newest.traced_from,
    least(passed.passed_from, newest.checked_at) as passed_by,
    newest.state = 'consumed' and tracing.tracing_clients <=> 'all' as is_dropped
  from newest
  left join passed
    on
      newest.cluster = passed.cluster
      and newest.topic = passed.topic
      and newest.msg_id = passed.msg_id
      and newest.consumer_group = passed.consumer_group
  left join skipped
    on
      newest.cluster = skipped.cluster
      and newest.topic = skipped.topic
      and newest.msg_id = skipped.msg_id
      and newest.consumer_group = skipped.consumer_group
  left join tracing
    on
      newest.cluster = tracing.cluster
      and newest.topic = tracing.topic
      and newest.msg_id = tracing.msg_id
      and newest.consumer_group = tracing.consumer_group
),

-- Of the messages of the group and topic that all clients that trace passed without a trace: when the first was passed at the
-- latest, and when the last was passed at the earliest.
compared as (
  select
    *,
    min(case when is_dropped then passed_by end) over (partition by cluster, topic, consumer_group) as first_passed_by,
    max(case when is_dropped then traced_from end) over (partition by cluster, topic, consumer_group) as last_passed_from
  from answered
)

select
  answers.cluster,
  answers.topic,
  answers.msg_id,
  answers.consumer_group,
  answers.checked_at,
  answers.is_stored,
  answers.state,
  answers.held_as,
  answers.is_of_batch,
  answers.due_at,
  answers.is_passed,
  answers.skip_evidence,
  answers.tracing_clients,
  answers.is_dropped
  and (
    coalesce(
      answers.traced_from > answers.first_passed_by + {{ limit('grace') }}
      or answers.last_passed_from > answers.passed_by + {{ limit('grace') }},
      false
    )
    {% if var('kept_from') %}or published.msg_id is not null{% endif %}
  ) as is_dropped_repeatedly
from compared as answers
{% if var('kept_from') %}
  -- Retention may have dropped the answers of the other messages.
  left join {{ published('int_message_checks') }} as published
    on
      answers.cluster = published.cluster
      and answers.topic = published.topic
      and answers.msg_id = published.msg_id
      and answers.consumer_group = published.consumer_group
      and published.is_dropped_repeatedly
{% endif %}

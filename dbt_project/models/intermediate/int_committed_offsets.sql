-- One row per broker, consumer group and topic: (cluster, broker, group_name, topic_name), with the offsets that an expected
-- group has committed as of the watermark. The groups exist and do not broadcast.
{{ config(materialized='working_table', schema='changes') }}
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
)

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

-- One row per trace message, type, topic and group of its records. The bytes of a message are divided among its records.
with counted as (
  select
    cluster,
    trace_topic,
    broker,
    queue_id,
    epoch,
    queue_offset,
    hour,
    record_type,
    topic,
    group_name,
    count(*) as records
  from {{ ref('stg_trace_records') }}
  where change_seq <= {{ change_seq_to() }} and store_time is not null and {{ is_stored_in_hours_of('affected') }}
  group by cluster, trace_topic, broker, queue_id, epoch, queue_offset, hour, record_type, topic, group_name
),

placed as (
  select
    *,
    sum(records) over (
      partition by cluster, trace_topic, broker, queue_id, epoch, queue_offset
      order by record_type, topic, group_name rows between unbounded preceding and current row
    ) as records_to_here,
    sum(records) over (partition by cluster, trace_topic, broker, queue_id, epoch, queue_offset) as records_of_message
  from counted
),

messages as (
  select * from {{ ref('stg_trace_messages') }}
  where {{ is_stored_in_hours_of('affected') }}
)

select
  placed.cluster,
  placed.trace_topic,
  placed.record_type,
  placed.topic,
  placed.group_name,
  placed.hour,
  placed.records,
  -- Differences of rounded sums, so that the parts of a message add up to its size.
  messages.stored_size * placed.records_to_here div placed.records_of_message
  - messages.stored_size * (placed.records_to_here - placed.records) div placed.records_of_message as stored_bytes
from placed
left join messages
  on
    placed.cluster = messages.cluster
    and placed.trace_topic = messages.trace_topic
    and placed.broker = messages.broker
    and placed.queue_id = messages.queue_id
    and placed.epoch = messages.epoch
    and placed.queue_offset = messages.queue_offset

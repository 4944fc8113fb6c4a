-- One row a message and consumer group that is expected to consume it.
with pairs as (
  select distinct
    messages.cluster,
    messages.topic,
    messages.msg_id,
    messages.published_at,
    messages.hour,
    messages.msg_type,
    expected.consumer_group
  from {{ ref('int_messages') }} as messages
  inner join {{ ref('int_expected_groups') }} as expected
    on
      messages.cluster = expected.cluster
      and messages.topic = expected.topic
      and messages.published_at between expected.expected_from and expected.expected_to
),

taken_out as (
  select * from {{ ref('expected_group_overrides') }}
  where not is_expected
)

select pairs.*
from pairs
left anti join taken_out
  on
    pairs.cluster = taken_out.cluster
    and pairs.topic = taken_out.topic
    and pairs.consumer_group = taken_out.consumer_group
    and (taken_out.valid_from is null or pairs.published_at >= taken_out.valid_from)
    and (taken_out.valid_to is null or pairs.published_at < taken_out.valid_to)

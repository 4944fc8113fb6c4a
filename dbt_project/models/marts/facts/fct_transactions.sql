-- One row per transactional message: (cluster, msg_id), a half message or a message with an EndTransaction, and the decision.
{{ config(partition_by='hour', replaces='message') }}
with pubs as (
  select
    cluster,
    msg_id,
    -- The half message is the Pub of type half; clients 5.0.0 and 5.1.0 write another type.
    min(
      struct(not coalesce(msg_type = 'half', false) as is_other, published_at, topic, hour_source, producer_group, msg_type)
    ) as pub
  from {{ ref('int_messages') }}
  group by cluster, msg_id
),

transactions as (
  select
    coalesce(pubs.cluster, ends.cluster) as cluster,
    coalesce(pubs.msg_id, ends.msg_id) as msg_id,
    coalesce(pubs.pub.topic, ends.topic) as topic,
    coalesce(pubs.pub.producer_group, ends.producer_group) as producer_group,
    pubs.pub.msg_type,
    pubs.msg_id is not null as is_half_seen,
    pubs.pub.published_at as half_sent_at,
    coalesce(ends.transaction_state, 'undecided') as transaction_state,
    ends.committed_at,
    ends.first_decision_at,
    ends.last_decision_at,
    coalesce(ends.transaction_ends, 0) as transaction_ends,
    coalesce(ends.checks_answered, 0) as checks_answered,
    coalesce(ends.end_copies, 0) as end_copies,
    coalesce(pubs.pub.published_at, ends.first_decision_at) as begun_at,
    coalesce(pubs.pub.hour_source, ends.hour_source) as hour_source
  from pubs
  full outer join {{ ref('int_transactions') }} as ends
    on pubs.cluster = ends.cluster and pubs.msg_id = ends.msg_id
  where ends.msg_id is not null or not pubs.pub.is_other
),

classified as (
  select
    transactions.*,
    transactions.transaction_state in ('unknown', 'undecided') as is_open,
    transactions.begun_at + {{ limit('grace') }} as past_due_at,
    watermarks.watermark
  from transactions
  left join {{ ref('int_watermarks') }} as watermarks
    on transactions.cluster = watermarks.cluster
)

select
  cluster,
  msg_id,
  topic,
  producer_group,
  msg_type,
  is_half_seen,
  half_sent_at,
  transaction_state,
  is_open and coalesce(watermark >= past_due_at, false) as is_past_due,
  committed_at,
  first_decision_at,
  last_decision_at,
  transaction_ends,
  checks_answered,
  end_copies,
  date_trunc('hour', begun_at) as hour,
  hour_source,
  case when is_open and not coalesce(watermark >= past_due_at, false) then past_due_at end as next_review_at
from classified

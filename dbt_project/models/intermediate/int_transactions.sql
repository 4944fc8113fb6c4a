-- One row per transactional message with an EndTransaction: the last commit or rollback, else unknown. A record that was stored
-- twice is one end with its number of copies.
{{ config(materialized='working_table', schema='changes') }}
with ends as (
  select
    cluster,
    msg_id,
    event_time,
    transaction_state,
    is_answer_to_check,
    min(struct(decided_at, record_position, hour_source, topic, producer_group)) as ended,
    count(*) as copies
  from {{ ref('stg_transaction_ends') }}
  where
    change_seq <= {{ change_seq_to() }}
    and msg_id is not null
    and {{ is_stored_in_hours_of('affected') }}
    and {{ is_message_of('affected') }}
  group by cluster, msg_id, event_time, transaction_state, is_answer_to_check
)

select
  cluster,
  msg_id,
  coalesce(
    max_by(transaction_state, ended) filter (where transaction_state in ('commit', 'rollback')),
    'unknown'
  ) as transaction_state,
  max(ended.decided_at) filter (where transaction_state = 'commit') as committed_at,
  min(ended.decided_at) as first_decision_at,
  max(ended.decided_at) as last_decision_at,
  min(ended).hour_source as hour_source,
  min(ended).topic as topic,
  min(ended).producer_group as producer_group,
  count(*) as transaction_ends,
  count_if(is_answer_to_check) as checks_answered,
  sum(copies) as end_copies
from ends
group by cluster, msg_id

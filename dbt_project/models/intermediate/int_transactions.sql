-- One row a transactional message with an EndTransaction: its last commit or rollback, else unknown.
with ends as (
  select * from {{ ref('stg_transaction_ends') }}
  where change_seq <= {{ change_seq_to() }} and msg_id is not null
)

select
  cluster,
  msg_id,
  coalesce(
    max_by(transaction_state, struct(decided_at, place)) filter (where transaction_state in ('commit', 'rollback')),
    'unknown'
  ) as transaction_state,
  max(decided_at) filter (where transaction_state = 'commit') as committed_at,
  count(*) as transaction_ends
from ends
group by cluster, msg_id

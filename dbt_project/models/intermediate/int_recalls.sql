-- One row a message that its producer took back: (cluster, msg_id).
select
  cluster,
  msg_id,
  min(recalled_at) as recalled_at
from {{ ref('stg_recalls') }}
where is_success and msg_id is not null and change_seq <= {{ change_seq_to() }}
group by cluster, msg_id

-- One row per message that its producer recalled: (cluster, msg_id).
{{ config(materialized='working_table', schema='changes') }}
select
  cluster,
  msg_id,
  min(recalled_at) as recalled_at
from {{ ref('stg_recalls') }}
where
  is_success
  and msg_id is not null
  and change_seq <= {{ change_seq_to() }}
  and {{ is_stored_in_hours_of('affected') }}
  and {{ is_message_of('affected') }}
group by cluster, msg_id

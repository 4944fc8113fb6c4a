-- One row per message to compute again from its records: it has a new record, a replay replaced one of its records, or the
-- watermark has passed a `next_review_at` of one of its attempts.
{{ config(only_in='incremental_run') }}

select
  cluster as message_cluster,
  message_key
from {{ ref('stg_record_messages') }}
where {{ is_new_record() }}
union
select
  cluster as message_cluster,
  message_key
from {{ ref('stg_replaced_records') }}
where {{ is_new_record() }} and message_key is not null
union
{{ due_messages('fct_consume_attempts', message_key_of_attempt()) }}

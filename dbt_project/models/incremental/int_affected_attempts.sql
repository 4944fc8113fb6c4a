-- One row per attempt of an affected message: (cluster, request_id, msg_id).
{{ config(only_in='incremental_run') }}

select *
from {{ rows_of_messages('affected', ref('fct_consume_attempts'), message_key_of_attempt()) }}

-- One row an attempt of an affected message: (cluster, request_id, msg_id).
{{ config(materialized='working_table', schema='changes', enabled=is_change_run()) }}

select *
from {{ of_messages('affected', ref('fct_consume_attempts'), life_of_attempt()) }}

-- One row per changed message and hour in which it had records before this run.
{{ config(only_in='incremental_run') }}

select known.*
from {{ published('int_message_hours') }} as known
left semi join (
  select {{ message_key_hash('message_cluster') }}
  from {{ working_table('int_changed_messages') }}
) as changed
  on known.hash_high = changed.hash_high and known.hash_low = changed.hash_low

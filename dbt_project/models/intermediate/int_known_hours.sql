-- One row a changed message and hour in which it was known to have records, before this run.
{{ config(materialized='working_table', schema='changes', enabled=is_change_run()) }}

select known.*
from {{ published('int_message_hours') }} as known
left semi join (
  select {{ life_hash('life_cluster') }}
  from {{ working_table('int_changed_messages') }}
) as changed
  on known.hash_high = changed.hash_high and known.hash_low = changed.hash_low

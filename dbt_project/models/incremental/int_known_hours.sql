-- One row per changed or due message and hour in which it had records before this run.
{{ config(only_in='incremental_run') }}

with messages as (
  select
    {{ message_key_day() }} as key_day,
    {{ message_key_hash('message_cluster') }},
    true as is_changed
  from {{ working_table('int_changed_messages') }}
  union all
  select
    {{ message_key_day() }} as key_day,
    {{ message_key_hash('message_cluster') }},
    false as is_changed
  from {{ working_table('int_due_messages') }}
),

hashes as (
  select
    key_day,
    hash_high,
    hash_low,
    bool_or(is_changed) as is_changed
  from messages
  group by key_day, hash_high, hash_low
)

select
  known.*,
  hashes.is_changed
from {{ hours_of_days(['int_changed_messages', 'int_due_messages']) }} as known
inner join hashes
  on known.key_day = hashes.key_day and known.hash_high = hashes.hash_high and known.hash_low = hashes.hash_low

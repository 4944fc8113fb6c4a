-- One row per message and hour in which it has records. An incremental run finds the hours of a changed message here: it reads
-- the partitions of the days in the ids of its messages. Sorted, the first of the two integers takes almost no space in a file.
{{ config(
  materialized='audited_table',
  contract={'enforced': true},
  partition_by='key_day',
  replaces='nothing',
  sorted_by='hash_high'
) }}
with hours as (
  select distinct
    {{ message_key_day() }} as key_day,
    {{ message_key_hash() }},
    explode(array(hour, stored_hour)) as hour
  from {{ ref('stg_record_messages') }}
  where {% if is_incremental_run() %}{{ is_new_record() }}{% else %}change_seq <= {{ change_seq_to() }}{% endif %}
)

select
  key_day,
  hash_high,
  hash_low,
  hour
from hours
{% if replaces_some_rows() %}
  left anti join
    {{ working_table('int_known_hours') if is_incremental_run() else published('int_message_hours') }}
    using (key_day, hash_high, hash_low, hour)
{% endif %}

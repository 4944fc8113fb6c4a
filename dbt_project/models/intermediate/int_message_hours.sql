-- One row a message and hour in which it has records: where an incremental run looks for what a new record belongs to.
{{ config(materialized='audited_table', contract={'enforced': true}, replaces='nothing') }}
with hours as (
  select distinct
    {{ life_hash() }},
    explode(array(hour, stored_hour)) as hour
  from {{ ref('stg_record_messages') }}
  where {% if is_change_run() %}{{ is_new_record() }}{% else %}change_seq <= {{ change_seq_to() }}{% endif %}
)

select
  hash_high,
  hash_low,
  hour
from hours
{% if replaces_a_part() %}
  left anti join
    {{ working_table('int_known_hours') if is_change_run() else published('int_message_hours') }}
    using (hash_high, hash_low, hour)
{% endif %}
-- So that the first of the two numbers takes no place in a file.
sort by hash_high

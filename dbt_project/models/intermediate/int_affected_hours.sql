-- One row an hour in which affected messages have records or rows, or in which Invalid records came or went.
{{ config(
  materialized='working_table', schema='changes', enabled=is_change_run(), post_hook="{{ remember_hours('affected') }}"
) }}
-- depends_on: {{ ref('int_affected_messages') }}

select hour from {{ working_table('int_changed_hours') }}
{% if context_changes() %}
  union
  select known.hour
  from {{ published('int_message_hours') }} as known
  left semi join (
    select {{ life_hash('life_cluster') }}
    from {{ working_table('int_affected_messages') }}
  ) as affected
    on known.hash_high = affected.hash_high and known.hash_low = affected.hash_low
{% endif %}

-- One row per hour before `kept_from` of which events still holds records, as their clients' clocks say: they were stored later.
{{ config(
  materialized='working_table', schema='changes', enabled=is_keeping_refresh(), post_hook="{{ remember_hours('late') }}"
) }}

select distinct hour
from {{ ref('stg_record_messages') }}
where change_seq <= {{ change_seq_to() }} and not {{ has_its_records('hour') }}

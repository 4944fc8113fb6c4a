-- One row per hour before `kept_from` in which events still holds records: by their clients' clocks they are older than their
-- store time.
{{ config(only_in='refresh_after_retention', post_hook="{{ save_hours('late') }}") }}

select distinct hour
from {{ ref('stg_record_messages') }}
where change_seq <= {{ change_seq_to() }} and not {{ is_retained('hour') }}

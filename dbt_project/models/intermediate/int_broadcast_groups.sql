{{ config(materialized='working_table', schema='changes') }}
{{ broadcast_groups(ref('int_consume_hours')) }}

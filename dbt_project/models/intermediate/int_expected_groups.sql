{{ config(materialized='working_table', schema='changes') }}
{{ expected_groups(ref('int_consume_hours')) }}

-- One row per message and consumer group that is expected to consume it.
{{ config(materialized='working_table', schema='changes') }}
{{ expected_deliveries(ref('int_messages')) }}

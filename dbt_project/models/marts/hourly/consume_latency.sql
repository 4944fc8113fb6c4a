-- One row per consumer group, topic and hour: (cluster, consumer_group, topic, hour), of attempts with a SubAfter; topic is
-- NULL if no Pub of the message is known.
{{ config(partition_by='days(hour)', replaces='hour') }}

{{ latency_by_hour(
  ref('fct_consume_attempts'),
  key=['cluster', 'consumer_group', 'topic'],
  milliseconds='cost_ms',
  row_count='attempts_with_end',
  where='consumer_group is not null and has_end'
) }}

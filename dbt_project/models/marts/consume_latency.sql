-- One row a consumer group, topic and hour: (cluster, consumer_group, topic, hour), of attempts with a SubAfter;
-- topic is NULL where no Pub tells it.
{{ config(partition_by='days(hour)', replaces='hour') }}

{{ latency_by_hour(
  ref('fct_consume_attempts'),
  key=['cluster', 'consumer_group', 'topic'],
  milliseconds='cost_ms',
  rows_are='attempts_with_end',
  where='consumer_group is not null and has_end'
) }}

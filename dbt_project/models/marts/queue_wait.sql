-- One row a consumer group, topic and hour: (cluster, consumer_group, topic, hour), of deliveries;
-- topic is NULL where no Pub tells it.
{{ config(partition_by='days(hour)', replaces='hour') }}

{{ latency_by_hour(
  ref('fct_deliveries'),
  key=['cluster', 'consumer_group', 'topic'],
  milliseconds='queue_wait_ms',
  rows_are='deliveries'
) }}

-- One row per consumer group, topic and day: (cluster, consumer_group, topic, day).
{{ config(partition_by='day', replaces='day') }}

{{ by_day(
  ref('consumer_group_success'),
  key=['cluster', 'consumer_group', 'topic'],
  counts=[
    'attempts', 'attempts_with_end', 'succeeded', 'exception', 'returned_null', 'failed', 'timeout', 'not_returned', 'in_flight',
    'deliveries', 'deliveries_succeeded', 'deliveries_in_flight', 'deliveries_not_returned', 'deliveries_retrying',
    'deliveries_exhausted', 'first_attempts', 'first_attempts_succeeded', 'retries', 'duplicates', 'ends_without_begin',
    'begins_without_end', 'attempts_without_pub', 'attempts_by_store_time', 'extra_copies'
  ]
) }}

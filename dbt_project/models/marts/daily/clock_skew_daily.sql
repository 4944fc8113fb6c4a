-- One row per client, side and day: (cluster, client, side, day).
{{ config(partition_by='day', replaces='day') }}

{{ by_day(
  ref('clock_skew'),
  key=['cluster', 'client', 'side'],
  counts=['records', 'records_by_store_time', 'deliveries', 'negative_queue_waits', 'negative_end_to_ends'],
  maxima=['lead_ms', 'max_skew_ms']
) }}

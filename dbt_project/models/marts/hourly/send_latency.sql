-- One row per topic, producer group and hour: (cluster, topic, producer_group, hour), of sends that returned.
{{ config(partition_by='days(hour)', replaces='hour') }}

{{ latency_by_hour(
  ref('fct_sends'),
  key=['cluster', 'topic', 'producer_group'],
  milliseconds='cost_ms',
  row_count='sends',
  counts={
    'succeeded': 'count_if(is_send_ok)',
    'status_unknown': 'count_if(is_send_ok is null)',
    'calls': 'count_if(batch_index = 0)',
    'sends_by_store_time': "count_if(hour_source = 'store_time')",
    'extra_copies': 'sum(copies - 1)'
  }
) }}

-- One row per client host and day: (cluster, client_host, day), the loss estimated from the sums of the hours.
{{ config(partition_by='day', replaces='day') }}
with days as (
  {{ by_day(
    ref('trace_completeness'),
    key=['cluster', 'client_host'],
    counts=['pubs', 'attempts', 'pairs', 'ends_without_begin', 'begins_without_end', 'in_flight', 'attempts_without_pub']
  ) | indent(2) }}
)

{{ with_estimated_loss('days') }}

-- One row per topic, expected group and day: (cluster, topic, expected_group, day).
{{ config(partition_by='day', replaces='day') }}

{{ by_day(
  ref('orphan_rate'),
  key=['cluster', 'topic', 'expected_group'],
  counts=[
    'expected', 'consumed', 'judged', 'orphaned', 'orphaned_proven', 'orphaned_inferred', 'orphaned_unknown',
    'trace_gap', 'rolled_back', 'recalled', 'half_uncommitted', 'filtered', 'filter_unknown', 'delayed_not_due',
    'untraced_batch', 'within_grace', 'in_flight', 'not_returned', 'dead_letter', 'retrying', 'skipped',
    'untraced_consumer', 'lost_trace', 'passed_untraced', 'group_deleted', 'in_backlog', 'backlog_overdue', 'broadcasting', 'gone',
    'filtered_or_lost'
  ]
) }}

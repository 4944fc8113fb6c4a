-- One row per topic, producer group and day: (cluster, topic, producer_group, day).
{{ config(partition_by='day', replaces='day') }}

{{ by_day(
  ref('transaction_outcomes'),
  key=['cluster', 'topic', 'producer_group'],
  counts=[
    'transactions', 'half_messages', 'committed', 'rolled_back', 'state_unknown', 'state_unknown_past_due', 'undecided',
    'within_grace', 'transaction_ends', 'checks_answered', 'transactions_by_store_time', 'extra_copies'
  ]
) }}

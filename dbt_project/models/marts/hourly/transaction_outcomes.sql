-- One row per topic, producer group and hour: (cluster, topic, producer_group, hour), of transactional messages.
{{ config(partition_by='days(hour)', replaces='hour') }}
select
  cluster,
  topic,
  producer_group,
  hour,
  count(*) as transactions,
  count_if(is_half_seen) as half_messages,
  count_if(transaction_state = 'commit') as committed,
  count_if(transaction_state = 'rollback') as rolled_back,
  count_if(transaction_state = 'unknown') as state_unknown,
  count_if(transaction_state = 'unknown' and is_past_due) as state_unknown_past_due,
  count_if(transaction_state = 'undecided' and is_past_due) as undecided,
  count_if(transaction_state = 'undecided' and not is_past_due) as within_grace,
  sum(transaction_ends) as transaction_ends,
  sum(checks_answered) as checks_answered,
  count_if(hour_source = 'store_time') as transactions_by_store_time,
  sum(end_copies - transaction_ends) as extra_copies
from {{ rows_in_hours_of('affected', ref('fct_transactions')) }}
group by cluster, topic, producer_group, hour

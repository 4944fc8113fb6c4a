-- One row per consumer group and hour of the first attempt: (cluster, consumer_group, hour), of deliveries, and of those of
-- messages without a Pub.
{{ config(partition_by='days(hour)', replaces='hour') }}
select
  cluster,
  consumer_group,
  hour,
  count(*) as deliveries,
  count_if(not is_published) as unpublished,
  count_if(unpublished_cause = 'before_history') as before_history,
  count_if(unpublished_cause = 'grpc_producer') as grpc_producer,
  count_if(unpublished_cause = 'untraced_send') as untraced_send
from {{ rows_in_hours_of('affected', ref('fct_deliveries')) }}
group by cluster, consumer_group, hour

-- One row per topic, producer group and hour: (cluster, topic, producer_group, hour), of sends. The dimensions sum these rows.
{{ config(materialized='audited_table', contract={'enforced': true}, partition_by='days(hour)', replaces='hour', set='changed') }}

select
  cluster,
  topic,
  producer_group,
  hour,
  count(*) as sends,
  min(sent_at) as first_sent_at,
  max(sent_at) as last_sent_at,
  array_sort(collect_set(topic_kind)) as topic_kinds,
  array_sort(collect_set(msg_type)) as msg_types,
  array_sort(collect_set(layout)) as layouts
from {{ rows_in_hours_of('changed', ref('fct_sends')) }}
group by cluster, topic, producer_group, hour

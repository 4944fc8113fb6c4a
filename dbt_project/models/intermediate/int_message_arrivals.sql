-- One row per topic, hour of publication, and hour of arrival: (cluster, topic, hour, arrived_hour), of messages. trace_coverage
-- sums these rows.
{{ config(materialized='audited_table', contract={'enforced': true}, partition_by='days(hour)', replaces='hour') }}
with messages as (
  select
    cluster,
    topic,
    hour,
    date_trunc('hour', {{ arrived_at() }}) as arrived_hour
  from {{ rows_in_hours_of('affected', ref('fct_messages')) }}
  where is_published and topic is not null
)

select
  cluster,
  topic,
  hour,
  arrived_hour,
  count(*) as messages
from messages
where arrived_hour is not null
group by cluster, topic, hour, arrived_hour

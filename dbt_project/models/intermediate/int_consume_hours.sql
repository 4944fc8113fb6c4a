-- One row per topic, consumer group and hour: (cluster, topic, consumer_group, hour), of attempts. Dimensions, expected groups
-- and broadcast groups are computed from these rows.
{{ config(materialized='audited_table', contract={'enforced': true}, partition_by='days(hour)', replaces='hour', set='changed') }}

with attempts as (
  select *
  from {{ rows_in_hours_of('changed', ref('fct_consume_attempts')) }}
),

first_attempts as (
  select
    cluster,
    topic,
    consumer_group,
    hour,
    msg_id,
    count(distinct client) as clients
  from attempts
  where retry_times = 0
  group by cluster, topic, consumer_group, hour, msg_id
),

messages as (
  select
    cluster,
    topic,
    consumer_group,
    hour,
    count(*) as first_messages,
    count_if(clients > 1) as first_messages_on_clients
  from first_attempts
  group by cluster, topic, consumer_group, hour
),

hours as (
  select
    cluster,
    topic,
    consumer_group,
    hour,
    count(*) as attempts,
    count_if(not has_begin) as ends_without_begin,
    count_if(outcome = 'not_returned') as begins_without_end,
    min(occurred_at) as first_attempt_at,
    max(occurred_at) as last_attempt_at,
    min(case when coalesce(retry_times, 0) = 0 then occurred_at end) as first_try_at,
    max(case when coalesce(retry_times, 0) = 0 then occurred_at end) as last_try_at,
    array_sort(array_union(collect_set(begin_layout), collect_set(end_layout))) as layouts
  from attempts
  group by cluster, topic, consumer_group, hour
)

select
  hours.cluster,
  hours.topic,
  hours.consumer_group,
  hours.hour,
  hours.attempts,
  hours.ends_without_begin,
  hours.begins_without_end,
  hours.first_attempt_at,
  hours.last_attempt_at,
  hours.first_try_at,
  hours.last_try_at,
  coalesce(messages.first_messages, 0) as first_messages,
  coalesce(messages.first_messages_on_clients, 0) as first_messages_on_clients,
  hours.layouts
from hours
left join messages
  on
    hours.cluster = messages.cluster
    and hours.topic <=> messages.topic
    and hours.consumer_group <=> messages.consumer_group
    and hours.hour = messages.hour

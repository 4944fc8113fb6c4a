-- One row per side, topic, consumer group and hour: (cluster, side, topic, consumer_group, hour), with the messages that the
-- brokers count and those that the traces have.
{{ config(partition_by='days(hour)', replaces='hour_of_records', set='covered') }}
with arrivals as (
  select
    cluster,
    'producer' as side,
    topic,
    cast(null as string) as consumer_group,
    arrived_hour as hour,
    sum(messages) as traced,
    false as has_broadcast
  from {{ ref('int_message_arrivals') }}
  where {{ is_bound_of('covered', 'arrived_hour') }}
  group by cluster, topic, arrived_hour
),

growth as (
  select * from {{ ref('int_offset_growth') }}
),

-- A delivery without a Pub has no topic. It is on the topic of its group, if the group has offsets on one only.
topics_of_groups as (
  select
    cluster,
    consumer_group,
    hour,
    any_value(topic) as topic
  from growth
  where side = 'consumer'
  group by cluster, consumer_group, hour
  having count(*) = 1
),

deliveries as (
  select
    deliveries.cluster,
    'consumer' as side,
    coalesce(deliveries.topic, topics_of_groups.topic) as topic,
    deliveries.consumer_group,
    deliveries.hour,
    count(*) as traced,
    bool_or(deliveries.is_broadcast) as has_broadcast
  from {{ rows_in_hours_of('covered', ref('fct_deliveries')) }} as deliveries
  left join topics_of_groups
    on
      deliveries.cluster = topics_of_groups.cluster
      and deliveries.consumer_group = topics_of_groups.consumer_group
      and deliveries.hour = topics_of_groups.hour
  group by all
),

without_topic as (
  select
    cluster,
    consumer_group,
    hour
  from deliveries
  where topic is null
),

broadcasting as (
  select distinct
    deliveries.cluster,
    deliveries.consumer_group,
    deliveries.hour
  from deliveries
  inner join {{ ref('int_broadcasting_periods') }} as periods
    on
      deliveries.cluster = periods.cluster
      and deliveries.consumer_group = periods.consumer_group
      and deliveries.hour + interval '1' hour > periods.broadcasting_from
      and deliveries.hour < periods.broadcasting_to
  union distinct
  select distinct
    growth.cluster,
    growth.consumer_group,
    growth.hour
  from growth
  inner join {{ ref('int_broadcasting_periods') }} as periods
    on
      growth.cluster = periods.cluster
      and growth.consumer_group = periods.consumer_group
      and growth.hour + interval '1' hour > periods.broadcasting_from
      and growth.hour < periods.broadcasting_to
),

subscribed as (
  select
    growth.cluster,
    growth.consumer_group,
    growth.topic,
    growth.hour,
    bool_and(subscriptions.tag_filter = 'all') as is_to_all
  from growth
  inner join {{ ref('int_subscriptions') }} as subscriptions
    on
      growth.cluster = subscriptions.cluster
      and growth.consumer_group = subscriptions.consumer_group
      and growth.topic = subscriptions.topic
      and growth.hour + interval '1' hour > subscriptions.subscribed_from
      and growth.hour < subscriptions.subscribed_to
  group by growth.cluster, growth.consumer_group, growth.topic, growth.hour
),

traced as (
  select * from arrivals
  union all
  select * from deliveries
),

compared as (
  select
    coalesce(traced.cluster, growth.cluster) as cluster,
    coalesce(traced.side, growth.side) as side,
    coalesce(traced.topic, growth.topic) as topic,
    coalesce(traced.consumer_group, growth.consumer_group) as consumer_group,
    coalesce(traced.hour, growth.hour) as hour,
    coalesce(traced.traced, 0) as traced,
    coalesce(traced.has_broadcast, false) as has_broadcast,
    growth.messages,
    growth.unknown_reason,
    growth.cluster is not null as has_offsets
  from traced
  full outer join growth
    on
      traced.cluster = growth.cluster
      and traced.side = growth.side
      and traced.topic = growth.topic
      and traced.consumer_group <=> growth.consumer_group
      and traced.hour = growth.hour
),

judged as (
  select
    compared.*,
    case
      when not coalesce(watermarks.watermark >= compared.hour + interval '1' hour + {{ limit('grace') }}, false) then 'open'
      when compared.has_broadcast or broadcasting.cluster is not null then 'broadcasting'
      when without_topic.cluster is not null then 'topic_unknown'
      when not compared.has_offsets then 'not_recorded'
      when compared.unknown_reason is not null then compared.unknown_reason
      when compared.side = 'consumer' and not coalesce(subscribed.is_to_all, false) then 'filtered'
    end as reason
  from compared
  left join {{ ref('int_watermarks') }} as watermarks
    on compared.cluster = watermarks.cluster
  left join broadcasting
    on
      compared.cluster = broadcasting.cluster
      and compared.consumer_group = broadcasting.consumer_group
      and compared.hour = broadcasting.hour
  left join without_topic
    on
      compared.cluster = without_topic.cluster
      and compared.consumer_group = without_topic.consumer_group
      and compared.hour = without_topic.hour
  left join subscribed
    on
      compared.cluster = subscribed.cluster
      and compared.consumer_group = subscribed.consumer_group
      and compared.topic = subscribed.topic
      and compared.hour = subscribed.hour
)

select
  cluster,
  side,
  topic,
  consumer_group,
  hour,
  case when reason is null then messages end as broker_messages,
  traced,
  case when reason is null then traced else 0 end as traced_known,
  cast(reason is null as bigint) as hours_known,
  reason as unknown_reason
from judged
where
  (traced > 0 or (reason is null and messages > 0))
  and {{ hour_is_in('covered') ~ ' and ' ~ is_retained('hour') if replaces_some_rows() else 'true' }}

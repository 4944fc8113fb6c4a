-- One row per period in which a consumer group is in broadcast mode: (cluster, consumer_group, broadcast_from). The seed
-- broadcast_groups decides; without a row there, what the brokers said last of the group; before they first said it, a group
-- broadcasts if most of its messages had first attempts on several clients. Published, because the next incremental run compares
-- its own rows with these.
{{ config(materialized='audited_table', contract={'enforced': true}) }}
{%- set always, forever = "timestamp '1970-01-01 00:00:00'", "timestamp '9999-12-31 00:00:00'" %}
with said as (
  select
    consumers.cluster,
    {{ without_prefixes('consumers.group_name') }} as consumer_group,
    consumers.valid_from as said_at,
    bool_or(consumers.message_model = 'BROADCASTING') as is_broadcast
  from {{ ref('stg_consumers') }} as consumers
  inner join {{ ref('int_facts_as_of') }} as facts
    on consumers.cluster = facts.cluster and consumers.valid_from <= facts.as_of
  where consumers.message_model in ('BROADCASTING', 'CLUSTERING')
  group by consumers.cluster, {{ without_prefixes('consumers.group_name') }}, consumers.valid_from
),

first_said as (
  select
    cluster,
    consumer_group,
    min(said_at) as first_said_at
  from said
  group by cluster, consumer_group
),

-- A new row of the facts says nothing new if only the clients have changed.
compared as (
  select
    *,
    is_broadcast <=> lag(is_broadcast) over (partition by cluster, consumer_group order by said_at) as is_same
  from said
),

said_periods as (
  select
    cluster,
    consumer_group,
    is_broadcast,
    said_at as broadcast_from,
    coalesce(lead(said_at) over (partition by cluster, consumer_group order by said_at), {{ forever }}) as broadcast_to
  from compared
  where not is_same
),

inferred as (
  select
    hours.cluster,
    hours.consumer_group,
    coalesce(max(first_said.first_said_at), {{ forever }}) as broadcast_to
  from {{ ref('int_consume_hours') }} as hours
  left join first_said
    on hours.cluster = first_said.cluster and hours.consumer_group = first_said.consumer_group
  where
    hours.consumer_group is not null
    and (first_said.first_said_at is null or hours.hour <= first_said.first_said_at)
  group by hours.cluster, hours.consumer_group
  having
    sum(hours.first_messages_on_clients) >= 3
    and sum(hours.first_messages_on_clients) * 4 >= sum(hours.first_messages) * 3
),

found as (
  select
    cluster,
    consumer_group,
    {{ always }} as broadcast_from,
    broadcast_to
  from inferred
  union all
  select
    cluster,
    consumer_group,
    broadcast_from,
    broadcast_to
  from said_periods
  where is_broadcast
)

select found.*
from found
left anti join {{ ref('broadcast_groups') }} as stated
  on found.cluster = stated.cluster and found.consumer_group = stated.consumer_group
union all
select
  cluster,
  consumer_group,
  {{ always }} as broadcast_from,
  {{ forever }} as broadcast_to
from {{ ref('broadcast_groups') }}
where is_broadcast

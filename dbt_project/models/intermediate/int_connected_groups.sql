-- One row per side and group with connected clients, as of the watermark: (cluster, side, group_name). Groups of RocketMQ itself,
-- and the producers that write traces, are left out.
with facts as (
  select * from {{ ref('int_facts_as_of') }}
),

clients as (
  select
    producers.cluster,
    producers.broker,
    'producer' as side,
    {{ without_prefixes('producers.group_name') }} as group_name,
    producers.languages,
    producers.versions,
    producers.valid_from,
    producers.connections as clients,
    0 as tracing_clients
  from {{ ref('stg_producers') }} as producers
  inner join facts
    on producers.cluster = facts.cluster and {{ is_current_as_of('producers') }}
  where producers.trace_of is null
  union all
  select
    consumers.cluster,
    consumers.broker,
    'consumer' as side,
    {{ without_prefixes('consumers.group_name') }} as group_name,
    consumers.languages,
    consumers.versions,
    consumers.valid_from,
    consumers.connections as clients,
    0 as tracing_clients
  from {{ ref('stg_consumers') }} as consumers
  inner join facts
    on consumers.cluster = facts.cluster and {{ is_current_as_of('consumers') }}
  where consumers.is_online
  union all
  -- Each client of a group that has its trace on has a producer for it.
  select
    producers.cluster,
    producers.broker,
    case producers.trace_role when 'PRODUCE' then 'producer' else 'consumer' end as side,
    {{ without_prefixes('producers.trace_of') }} as group_name,
    cast(array() as array<string>) as languages,
    cast(array() as array<string>) as versions,
    cast(null as timestamp) as valid_from,
    0 as clients,
    producers.connections as tracing_clients
  from {{ ref('stg_producers') }} as producers
  inner join facts
    on producers.cluster = facts.cluster and {{ is_current_as_of('producers') }}
  where producers.trace_of is not null
),

on_brokers as (
  select
    cluster,
    side,
    group_name,
    {{ sorted_union('languages') }} as languages,
    {{ sorted_union('versions') }} as versions,
    min(valid_from) as connected_since,
    sum(clients) as clients,
    sum(tracing_clients) as tracing_clients
  from clients
  where
    group_name is not null
    and group_name not in (
      'CLIENT_INNER_PRODUCER', 'SELF_TEST_P_GROUP', 'SELF_TEST_C_GROUP', 'TOOLS_CONSUMER', 'FILTERSRV_CONSUMER',
      'SCHEDULE_CONSUMER', '__MONITOR_CONSUMER', 'DEFAULT_PRODUCER', 'DEFAULT_CONSUMER'
    )
    and group_name not like 'CID\\_RMQ\\_SYS\\_%'
    and group_name not like '\\_INNER\\_TRACE\\_PRODUCER%'
  group by cluster, broker, side, group_name
)

-- A client is connected to several brokers.
select
  cluster,
  side,
  group_name,
  {{ sorted_union('languages') }} as languages,
  {{ sorted_union('versions') }} as versions,
  min(connected_since) as connected_since,
  max(clients) as clients,
  max(tracing_clients) as tracing_clients
from on_brokers
group by cluster, side, group_name
having max(clients) > 0

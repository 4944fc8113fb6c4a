-- One row per side and group with connected clients, as of the watermark: (cluster, side, group_name). Groups of RocketMQ itself,
-- and the producers that write traces, are left out.
with facts as (
  select * from {{ ref('int_facts_as_of') }}
),

connected as (
  select
    producers.cluster,
    'producer' as side,
    {{ without_prefixes('producers.group_name') }} as group_name,
    producers.languages,
    producers.versions,
    producers.valid_from
  from {{ ref('stg_producers') }} as producers
  inner join facts
    on producers.cluster = facts.cluster and {{ is_current_as_of('producers') }}
  where producers.trace_of is null
  union all
  select
    consumers.cluster,
    'consumer' as side,
    {{ without_prefixes('consumers.group_name') }} as group_name,
    consumers.languages,
    consumers.versions,
    consumers.valid_from
  from {{ ref('stg_consumers') }} as consumers
  inner join facts
    on consumers.cluster = facts.cluster and {{ is_current_as_of('consumers') }}
  where consumers.is_online
),

-- A producer of a group's trace is connected only while a client of the group has its trace on.
tracing as (
  select distinct
    producers.cluster,
    case producers.trace_role when 'PRODUCE' then 'producer' else 'consumer' end as side,
    {{ without_prefixes('producers.trace_of') }} as group_name
  from {{ ref('stg_producers') }} as producers
  inner join facts
    on producers.cluster = facts.cluster and {{ is_current_as_of('producers') }}
  where producers.trace_of is not null
)

select
  connected.cluster,
  connected.side,
  connected.group_name,
  {{ sorted_union('connected.languages') }} as languages,
  {{ sorted_union('connected.versions') }} as versions,
  min(connected.valid_from) as connected_since,
  bool_or(tracing.cluster is not null) as is_tracing
from connected
left join tracing
  on connected.cluster = tracing.cluster and connected.side = tracing.side and connected.group_name = tracing.group_name
where
  connected.group_name is not null
  and connected.group_name not in (
    'CLIENT_INNER_PRODUCER', 'SELF_TEST_P_GROUP', 'SELF_TEST_C_GROUP', 'TOOLS_CONSUMER', 'FILTERSRV_CONSUMER',
    'SCHEDULE_CONSUMER', '__MONITOR_CONSUMER', 'DEFAULT_PRODUCER', 'DEFAULT_CONSUMER'
  )
  and connected.group_name not like 'CID\\_RMQ\\_SYS\\_%'
  and connected.group_name not like '\\_INNER\\_TRACE\\_PRODUCER%'
group by connected.cluster, connected.side, connected.group_name

-- Fails where a record of this run is in no fact, or twice: every Pub, SubBefore and SubAfter is counted, copies too.
with sums as (
  select
    'SubBefore' as record_type,
    (
      select count(*) from {{ ref('stg_consume_begins') }}
      where change_seq <= {{ change_seq_to() }}
    ) as records,
    (select coalesce(sum(begin_copies), 0) from {{ ref('fct_consume_attempts') }}) as in_facts
  union all
  select
    'SubAfter' as record_type,
    (
      select count(*) from {{ ref('stg_consume_ends') }}
      where change_seq <= {{ change_seq_to() }}
    ) as records,
    (select coalesce(sum(end_copies), 0) from {{ ref('fct_consume_attempts') }}) as in_facts
  union all
  select
    'Pub' as record_type,
    (select count(*) from {{ ref('int_sent_messages') }}) as records,
    (select coalesce(sum(copies), 0) from {{ ref('fct_sends') }}) as in_facts
)

select * from sums
where records != in_facts

-- Fails where a record of this run is in no fact, or twice: every one is counted, copies too.
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
    'EndTransaction' as record_type,
    (
      select count(*) from {{ ref('stg_transaction_ends') }}
      where change_seq <= {{ change_seq_to() }} and msg_id is not null
    ) as records,
    (select coalesce(sum(end_copies), 0) from {{ ref('fct_transactions') }}) as in_facts
  union all
  select
    'Invalid' as record_type,
    (
      select count(*) from {{ ref('stg_invalid_records') }}
      where change_seq <= {{ change_seq_to() }}
    ) as records,
    (select coalesce(sum(records), 0) from {{ ref('invalid_records') }}) as in_facts
  union all
  select
    'Pub' as record_type,
    (select count(*) from {{ ref('int_sent_messages') }}) as records,
    (select coalesce(sum(copies), 0) from {{ ref('fct_sends') }}) as in_facts
)

select * from sums
where records != in_facts

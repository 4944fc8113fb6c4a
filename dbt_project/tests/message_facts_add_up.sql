-- Fails if a fact or mart of messages does not count exactly the rows that it was computed from. The consumed messages of
-- orphan_rate are counted here from the attempts: an expected message is either consumed or a row of orphaned_messages.
with expected as (
  select
    cluster,
    msg_id,
    consumer_group
  from {{ ref('int_expected_deliveries_in_affected_hours') }}
),

sums as (
  select
    'fct_messages: attempts' as what,
    (select coalesce(sum(attempts), 0) from {{ rows_of_messages('affected', ref('fct_messages')) }}) as found,
    (
      select count(*) from {{ affected_attempts() }}
      where msg_id is not null
    ) as expected
  union all
  select
    'fct_messages: sends' as what,
    (select coalesce(sum(sends), 0) from {{ rows_of_messages('affected', ref('fct_messages')) }}) as found,
    (
      select count(*) from {{ rows_of_messages('affected', ref('fct_sends'), message_key_of_send()) }}
      where msg_id is not null and topic_kind = 'normal'
    ) as expected
  union all
  select
    'transaction_outcomes: transactions' as what,
    (select coalesce(sum(transactions), 0) from {{ rows_in_hours_of('affected', ref('transaction_outcomes')) }}) as found,
    (select count(*) from {{ rows_in_hours_of('affected', ref('fct_transactions')) }}) as expected
  union all
  select
    'orphan_rate: expected' as what,
    (select coalesce(sum(expected), 0) from {{ rows_in_hours_of('affected', ref('orphan_rate')) }}) as found,
    (select count(*) from expected) as expected
  union all
  select
    'orphan_rate: not consumed' as what,
    (select coalesce(sum(expected - consumed), 0) from {{ rows_in_hours_of('affected', ref('orphan_rate')) }}) as found,
    (
      select count(*) from {{ rows_in_hours_of('affected', ref('orphaned_messages')) }}
      where expected_group is not null
    ) as expected
  {% if not replaces_some_rows() %}
    -- Their attempts may be in any hour.
    union all
    select
      'orphan_rate: consumed' as what,
      (select coalesce(sum(consumed), 0) from {{ rows_in_hours_of('affected', ref('orphan_rate')) }}) as found,
      (
        select count(*)
        from expected
        left semi join (
          select
            cluster,
            msg_id,
            consumer_group
          from {{ rows_in_hours_of('affected', ref('fct_consume_attempts')) }}
          where has_end
        ) as ended
          on
            expected.cluster = ended.cluster
            and expected.msg_id = ended.msg_id
            and expected.consumer_group = ended.consumer_group
      ) as expected
  {% endif %}
  union all
  select
    'reverse_orphans: deliveries' as what,
    (select coalesce(sum(deliveries), 0) from {{ rows_in_hours_of('affected', ref('reverse_orphans')) }}) as found,
    (select count(*) from {{ rows_in_hours_of('affected', ref('fct_deliveries')) }}) as expected
  union all
  select
    'trace_completeness: attempts' as what,
    (select coalesce(sum(attempts), 0) from {{ rows_in_hours_of('affected', ref('trace_completeness')) }}) as found,
    (select count(*) from {{ rows_in_hours_of('affected', ref('fct_consume_attempts')) }}) as expected
)

select * from sums
where found != expected

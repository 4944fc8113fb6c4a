-- Fails if a record of the messages that the run has written is in no fact, or in more than one row. Copies are counted too.
{%- set records = [
  ('SubBefore', 'stg_consume_begins', 'changed', message_key_of_attempt(), 'fct_consume_attempts', 'begin_copies'),
  ('SubAfter', 'stg_consume_ends', 'changed', message_key_of_attempt(), 'fct_consume_attempts', 'end_copies'),
  ('EndTransaction', 'stg_transaction_ends', 'affected', 'msg_id', 'fct_transactions', 'end_copies'),
] %}
with sums as (
  {% for record_type, staging, set, message_key, fact, copies in records %}
    select
      '{{ record_type }}' as record_type,
      (
        select count(*) from {{ ref(staging) }}
        where
          change_seq <= {{ change_seq_to() }}
          and {{ message_key }} is not null
          and {{ is_stored_in_hours_of(set) }}
          and {{ is_message_of(set, message_key) }}
      ) as records,
      (select coalesce(sum({{ copies }}), 0) from {{ rows_of_messages(set, ref(fact), message_key) }}) as in_facts
    union all
  {% endfor %}
  select
    'Invalid' as record_type,
    (select count(*) from {{ ref('int_invalid_records') }}) as records,
    (
      select coalesce(sum(records), 0) from {{ rows_in_hours_of('affected', ref('invalid_records')) }}
      where {{ is_retained('hour') }}
    ) as in_facts
  union all
  select
    'Pub' as record_type,
    (select count(*) from {{ ref('int_sent_messages') }}) as records,
    (select coalesce(sum(copies), 0) from {{ rows_of_messages('changed', ref('fct_sends'), message_key_of_send()) }}) as in_facts
)

select * from sums
where records != in_facts

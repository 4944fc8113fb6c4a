-- Fails where a record of the messages that the run has written is in no fact, or twice: every one is counted, copies too.
{%- set records = [
  ('SubBefore', 'stg_consume_begins', 'changed', life_of_attempt(), 'fct_consume_attempts', 'begin_copies'),
  ('SubAfter', 'stg_consume_ends', 'changed', life_of_attempt(), 'fct_consume_attempts', 'end_copies'),
  ('EndTransaction', 'stg_transaction_ends', 'affected', 'msg_id', 'fct_transactions', 'end_copies'),
] %}
with sums as (
  {% for record_type, staging, set, life, fact, copies in records %}
    select
      '{{ record_type }}' as record_type,
      (
        select count(*) from {{ ref(staging) }}
        where
          change_seq <= {{ change_seq_to() }}
          and {{ life }} is not null
          and {{ is_stored_in_hours_of(set) }}
          and {{ is_message_of(set, life) }}
      ) as records,
      (select coalesce(sum({{ copies }}), 0) from {{ of_messages(set, ref(fact), life) }}) as in_facts
    union all
  {% endfor %}
  select
    'Invalid' as record_type,
    (select count(*) from {{ ref('int_invalid_records') }}) as records,
    (
      select coalesce(sum(records), 0) from {{ in_hours_of('affected', ref('invalid_records')) }}
      where {{ has_its_records('hour') }}
    ) as in_facts
  union all
  select
    'Pub' as record_type,
    (select count(*) from {{ ref('int_sent_messages') }}) as records,
    (select coalesce(sum(copies), 0) from {{ of_messages('changed', ref('fct_sends'), life_of_send()) }}) as in_facts
)

select * from sums
where records != in_facts

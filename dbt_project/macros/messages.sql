{# Expressions and queries on messages that several models share; docs/definitions.md has the definitions. #}

{# The time from which a consumer can receive a message. `message` has the columns of int_messages, `transaction` those of
   int_transactions. #}
{% macro due_at(message, transaction) -%}
  case
    when {{ message }}.msg_type = 'delay' then {{ message }}.published_at + {{ limit('max_delay') }}
    else coalesce({{ transaction }}.committed_at, {{ message }}.published_at)
  end
{%- endmacro %}

{# A condition on a message with published_at and due_at: its consumer records may be in the ingest gap, because
   the time from its publication until its deliveries are decided overlaps the gap. #}
{% macro can_be_in_gap(message, gap_from, gap_to) -%}
  {{ message }}.published_at <= {{ gap_to }}
  and ({{ gap_from }} is null or {{ message }}.due_at + {{ limit(['consume_timeout', 'grace']) }} >= {{ gap_from }})
{%- endmacro %}

{# A number rounded down to one significant digit: 1 to 9, 10, 20 and so on. #}
{% macro one_digit(number) -%}
  cast(rpad(left(cast({{ number }} as string), 1), length(cast({{ number }} as string)), '0') as bigint)
{%- endmacro %}

{# The query of int_changed_publications and int_affected_publications: the first Pub per message id of the set. Pubs to retry and
   dead-letter topics do not count: their messages were published before. #}
{% macro first_publications(set) %}
with published as (
  select
    cluster,
    msg_id,
    min(struct(sent_at as published_at, stored_at, offset_msg_id, topic, hour_source, client as producer_client)) as publication,
    count(*) as sends
  from {{ rows_of_messages(set, ref('fct_sends'), message_key_of_send()) }}
  where msg_id is not null and topic_kind = 'normal'
  group by cluster, msg_id
)

select
  cluster,
  msg_id,
  publication.topic,
  publication.published_at,
  publication.hour_source,
  publication.producer_client,
  sends
from published
{% endmacro %}

{# The query of int_expected_deliveries and int_expected_deliveries_in_affected_hours: one row per message and expected
   consumer group, with the columns of `messages`. #}
{% macro expected_deliveries(messages) %}
with pairs as (
  select distinct
    messages.*,
    expected.consumer_group
  from {{ messages }} as messages
  inner join {{ ref('int_expected_groups') }} as expected
    on
      messages.cluster = expected.cluster
      and messages.topic = expected.topic
      and messages.published_at between expected.expected_from and expected.expected_to
),

excluded as (
  select * from {{ ref('expected_group_overrides') }}
  where not is_expected
)

select pairs.*
from pairs
left anti join excluded
  on
    pairs.cluster = excluded.cluster
    and pairs.topic = excluded.topic
    and pairs.consumer_group = excluded.consumer_group
    and (excluded.valid_from is null or pairs.published_at >= excluded.valid_from)
    and (excluded.valid_to is null or pairs.published_at < excluded.valid_to)
{% endmacro %}

{# What a cluster's messages are judged by, from int_consume_hours as this run or an earlier one wrote it. #}

{# One row a stretch of publication time in which a group is expected to consume a topic, bounds included: the union of
   [attempt, attempt + look-back] over its attempts there. Later attempts never change the past. An hour is never longer
   than the look-back, so its first and last attempt stand for all of it. #}
{% macro expected_groups(consume_hours) %}
with with_previous as (
  select
    *,
    max(last_attempt_at) over (
      partition by cluster, topic, consumer_group
      order by hour rows between unbounded preceding and 1 preceding
    ) as previous_at
  from {{ consume_hours }}
  where topic is not null and consumer_group is not null
),

numbered as (
  select
    *,
    count_if(previous_at is null or first_attempt_at > previous_at + {{ expected_group_lookback() }}) over (
      partition by cluster, topic, consumer_group order by hour
    ) as stretch
  from with_previous
),

traced as (
  select
    cluster,
    topic,
    consumer_group,
    min(first_attempt_at) as expected_from,
    max(last_attempt_at) + {{ expected_group_lookback() }} as expected_to
  from numbered
  group by cluster, topic, consumer_group, stretch
),

stated as (
  select
    cluster,
    topic,
    consumer_group,
    coalesce(valid_from, timestamp '1970-01-01 00:00:00') as expected_from,
    coalesce(valid_to - interval '0.000001' second, timestamp '9999-12-31 00:00:00') as expected_to
  from {{ ref('expected_group_overrides') }}
  where is_expected
)

select * from traced
union all
select * from stated
{% endmacro %}

{# One row a consumer group in broadcast mode: the seed says so, or most messages had first attempts on several clients. #}
{% macro broadcast_groups(consume_hours) %}
with inferred as (
  select
    cluster,
    consumer_group,
    sum(first_messages_on_clients) >= 2 and sum(first_messages_on_clients) * 2 > sum(first_messages) as is_broadcast
  from {{ consume_hours }}
  where consumer_group is not null
  group by cluster, consumer_group
)

select
  cluster,
  consumer_group
from inferred
full outer join {{ ref('broadcast_groups') }} as stated using (cluster, consumer_group)
where coalesce(stated.is_broadcast, inferred.is_broadcast)
{% endmacro %}

{# One row a message and consumer group that is expected to consume it, with the messages' columns. #}
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

taken_out as (
  select * from {{ ref('expected_group_overrides') }}
  where not is_expected
)

select pairs.*
from pairs
left anti join taken_out
  on
    pairs.cluster = taken_out.cluster
    and pairs.topic = taken_out.topic
    and pairs.consumer_group = taken_out.consumer_group
    and (taken_out.valid_from is null or pairs.published_at >= taken_out.valid_from)
    and (taken_out.valid_to is null or pairs.published_at < taken_out.valid_to)
{% endmacro %}

{# Of a message with published_at and due_at: its consumer records can be in the gap, if they were due while it lasted. #}
{% macro can_be_in_gap(message, gap_from, gap_to) -%}
  {{ message }}.published_at <= {{ gap_to }}
  and ({{ gap_from }} is null or {{ message }}.due_at + {{ limit(['consume_timeout', 'grace']) }} >= {{ gap_from }})
{%- endmacro %}

-- One row a message to be computed anew: it has a new record, lost one to a replay, or the watermark has overtaken a state of it.
{{ config(materialized='working_table', schema='changes', enabled=is_change_run()) }}

select
  cluster as life_cluster,
  life
from {{ ref('stg_record_messages') }}
where {{ is_new_record() }}
union
select
  cluster as life_cluster,
  life
from {{ ref('stg_replaced_records') }}
where {{ is_new_record() }} and life is not null
{% for table in ['fct_consume_attempts', 'fct_transactions', 'fct_messages'] %}
  union
  select
    overtaken.cluster as life_cluster,
    {% if table == 'fct_consume_attempts' %}{{ life_of_attempt() }}{% else %}overtaken.msg_id{% endif %} as life
  from {{ published(table) }} as overtaken
  inner join {{ ref('int_watermarks') }} as watermarks
    on overtaken.cluster = watermarks.cluster
  where overtaken.next_review_at is not null and overtaken.next_review_at <= watermarks.watermark
{% endfor %}

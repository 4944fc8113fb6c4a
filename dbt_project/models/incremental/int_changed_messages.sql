-- One row per message to compute again: it has a new record, a replay replaced one of its records, or the watermark has passed
-- a `next_review_at` of it.
{{ config(only_in='incremental_run') }}

select
  cluster as message_cluster,
  message_key
from {{ ref('stg_record_messages') }}
where {{ is_new_record() }}
union
select
  cluster as message_cluster,
  message_key
from {{ ref('stg_replaced_records') }}
where {{ is_new_record() }} and message_key is not null
{% for table in ['fct_consume_attempts', 'fct_transactions', 'fct_messages'] %}
  union
  select
    due.cluster as message_cluster,
    {% if table == 'fct_consume_attempts' %}{{ message_key_of_attempt() }}{% else %}due.msg_id{% endif %} as message_key
  from {{ published(table) }} as due
  inner join {{ ref('int_watermarks') }} as watermarks
    on due.cluster = watermarks.cluster
  where due.next_review_at is not null and due.next_review_at <= watermarks.watermark
{% endfor %}

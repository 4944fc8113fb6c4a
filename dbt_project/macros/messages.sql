{# What several models say of a message. #}

{# From when a consumer can have a message: of int_messages' columns and int_transactions' (docs/definitions.md, due). #}
{% macro due_at(message, transaction) -%}
  case
    when {{ message }}.msg_type = 'delay' then {{ message }}.published_at + {{ limit('max_delay') }}
    else coalesce({{ transaction }}.committed_at, {{ message }}.published_at)
  end
{%- endmacro %}

{# One row a message id of the set that has a Pub: its first. What was sent to a retry or dead-letter topic was published before. #}
{% macro first_publications(set) %}
with published as (
  select
    cluster,
    msg_id,
    min(struct(sent_at as published_at, topic, hour_source, client as producer_client)) as publication
  from {{ of_messages(set, ref('fct_sends'), life_of_send()) }}
  where msg_id is not null and topic_kind = 'normal'
  group by cluster, msg_id
)

select
  cluster,
  msg_id,
  publication.topic,
  publication.published_at,
  publication.hour_source,
  publication.producer_client
from published
{% endmacro %}

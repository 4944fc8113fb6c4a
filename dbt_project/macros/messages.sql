{# What several models say of a message. #}

{# From when a consumer can have a message: of int_messages' columns and int_transactions' (docs/definitions.md, due). #}
{% macro due_at(message, transaction) -%}
  case
    when {{ message }}.msg_type = 'delay' then {{ message }}.published_at + {{ limit('max_delay') }}
    else coalesce({{ transaction }}.committed_at, {{ message }}.published_at)
  end
{%- endmacro %}

{# Expressions on rows of lake.broker_facts, which are valid from `valid_from` to `valid_to` (docs/broker_facts.md). #}

{# A condition: the row was the current one at the joined int_facts_as_of `facts`. #}
{% macro is_current_as_of(relation) -%}
  {{ relation }}.valid_from <= facts.as_of and ({{ relation }}.valid_to is null or {{ relation }}.valid_to > facts.as_of)
{%- endmacro %}

{# The end of a row's period as of the joined int_facts_as_of `facts`; what a later collection ended is current. #}
{% macro valid_to_as_of(relation) -%}
  case
    when {{ relation }}.valid_to <= facts.as_of then {{ relation }}.valid_to
    else timestamp '9999-12-31 00:00:00'
  end
{%- endmacro %}

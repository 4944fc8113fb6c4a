{# The inputs of a run besides the records: dbt_project.yml lists the vars. Models never read the clock. #}

{# The last change_seq of events.trace_records that this run reads. #}
{% macro change_seq_to() -%}
  {{ var('change_seq_to') | int }}
{%- endmacro %}

{# A condition: events still holds the records of this hour. Where retention has dropped them, the published rows are kept. #}
{% macro is_retained(hour) -%}
  {% if var('kept_from') %}{{ hour }} >= timestamp '{{ var('kept_from') }}'{% else %}true{% endif %}
{%- endmacro %}

{# A limit in seconds as an interval; several limits are added up. #}
{% macro limit(names) -%}
  {%- set seconds = namespace(total=0) -%}
  {%- for name in ([names] if names is string else names) -%}
    {%- set seconds.total = seconds.total + (var(name ~ '_seconds') | int) -%}
  {%- endfor -%}
  interval '{{ seconds.total }}' second
{%- endmacro %}

{% macro expected_group_lookback() -%}
  interval '{{ var('expected_group_lookback_days') | int }}' day
{%- endmacro %}

{# How often RocketMQ redelivers a message, unless the seed group_retry_limits has another number for the group. #}
{% macro max_retry_times() -%}
  {{ var('max_retry_times') | int }}
{%- endmacro %}

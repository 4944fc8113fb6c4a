{# What a run is a function of, besides the records: the only place where vars are read,
   but for int_watermarks. No model ever reads the clock. #}

{# The last change_seq of events.trace_records that this run reads. #}
{% macro change_seq_to() -%}
  {{ var('change_seq_to') | int }}
{%- endmacro %}

{# Whether events still holds the records of that hour. Where retention has dropped them, the published rows of the hour stay as they are. #}
{% macro has_its_records(hour) -%}
  {% if var('kept_from', none) %}{{ hour }} >= timestamp '{{ var('kept_from') }}'{% else %}true{% endif %}
{%- endmacro %}

{# A limit in seconds as an interval; several names are summed. #}
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

{# Redeliveries that RocketMQ makes where no seed says otherwise for the group. #}
{% macro max_retry_times() -%}
  {{ var('max_retry_times') | int }}
{%- endmacro %}

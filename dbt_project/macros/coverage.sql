{# Which rows of lake.broker_facts the trace coverage of the hours of a set needs. The offsets of an hour are those at its bounds: its
   first moment, and that of the next hour. #}

{# A condition: the time is a bound of an hour of the set. #}
{% macro is_bound_of(set, bound) -%}
  {%- if not is_incremental_run() -%}true
  {%- else -%}
  {%- for from_time, to_time in hour_ranges(set) -%}
  {{ '(' if loop.first }}{{ bound }} between timestamp '{{ from_time }}' and timestamp '{{ to_time }}'{{ ')' if loop.last else ' or ' }}
  {%- else %}false
  {%- endfor -%}
  {%- endif -%}
{%- endmacro %}

{# A condition: the period [from, to), to NULL: open, has a bound of an hour of the set, or may have one. #}
{% macro may_have_bound_of(set, from_column, to_column) -%}
  {%- if not is_incremental_run() -%}true
  {%- else -%}
  {%- for from_time, to_time in hour_ranges(set) -%}
  {{ '(' if loop.first }}({{ from_column }} <= timestamp '{{ to_time }}' and ({{ to_column }} is null or {{ to_column }} > timestamp '{{ from_time }}')){{ ')' if loop.last else ' or ' }}
  {%- else %}false
  {%- endfor -%}
  {%- endif -%}
{%- endmacro %}

{# The bounds of hours in the period [from, to), as an array. #}
{% macro bounds_in(from_time, to_time) -%}
  filter(
    sequence(
      date_trunc('hour', {{ from_time }}),
      greatest(date_trunc('hour', {{ from_time }}), date_trunc('hour', {{ to_time }})),
      interval '1' hour
    ),
    bound -> bound >= {{ from_time }} and bound < {{ to_time }}
  )
{%- endmacro %}

{# When a message of fct_messages arrived in its topic (docs/definitions.md); NULL if it is not known to have arrived. #}
{% macro arrived_at() -%}
  case
    when is_recalled then null
    when is_delayed then coalesce(first_attempt_at, due_at)
    when transaction_state = 'rollback' then null
    when transaction_state = 'commit' then due_at
    when is_transactional then first_attempt_at
    else published_at
  end
{%- endmacro %}

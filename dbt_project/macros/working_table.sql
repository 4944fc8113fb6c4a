{# A table of one run, in lake.changes: what several models read is computed once for all of them, and what they read
   has a short plan. The run drops it in the end. #}
{% materialization working_table, adapter='spark' %}
  {% set target_relation = this.incorporate(type='table') %}
  {% do run_query('drop table if exists ' ~ target_relation ~ ' purge') %}
  {% call statement('main') -%}
    create table {{ target_relation }} using iceberg as
    {{ sql }}
  {%- endcall %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}

{# Its name in a macro: dbt takes note of who reads it when it parses. #}
{% macro working_table(name) -%}
  {%- if not execute %}{% do ref(name) %}{% endif -%}
  changes.{{ name }}
{%- endmacro %}

{# The attempts that deliveries, orphans and messages are made of. #}
{% macro affected_attempts() -%}
  {%- if is_change_run() %}{{ working_table('int_affected_attempts') }}
  {%- else %}{{ of_messages('affected', ref('fct_consume_attempts'), life_of_attempt()) }}
  {%- endif %}
{%- endmacro %}

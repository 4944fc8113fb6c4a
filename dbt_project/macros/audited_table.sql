{# A table that is written, audited and published: the run writes a branch (spark.wap.branch),
   tests it there, and spark_jobs/publish makes the branch main. The table is made once, empty, from
   the model's contract, and only ever overwritten: `create or replace` would take main away from readers. #}
{% materialization audited_table, adapter='spark' %}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set existing_relation = load_relation(this) -%}
  {{ run_hooks(pre_hooks) }}

  {% do get_assert_columns_equivalent(sql) %}
  {% if existing_relation is none %}
    {% call statement('create') -%}
      {{ create_audited_table(target_relation) }}
    {%- endcall %}
  {% else %}
    {% do add_missing_columns(target_relation) %}
  {% endif %}

  {% set columns = model.columns.values() | map(attribute='name') | join(', ') %}
  {% call statement('main') -%}
    insert overwrite {{ target_relation }} ({{ columns }})
    select {{ columns }}
    from (
      {{ sql }}
    )
  {%- endcall %}

  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}

{% macro create_audited_table(relation) %}
  create table if not exists {{ relation }} (
    {% for column in model.columns.values() -%}
      {{ column_definition(column) }}{{ ',' if not loop.last }}
    {% endfor %}
  )
  using iceberg
  {{ partition_cols(label='partitioned by') }}
  comment '{{ quoted(model.description) }}'
  tblproperties ('format-version' = '2', 'write.wap.enabled' = 'true')
{% endmacro %}

{% macro column_definition(column) -%}
  {{ column.name }} {{ column.data_type }} comment '{{ quoted(column.description) }}'
{%- endmacro %}

{% macro quoted(text) -%}
  {{ text | replace('\n', ' ') | trim | replace("\\", "\\\\") | replace("'", "\\'") }}
{%- endmacro %}

{# A column that the contract gained is added, NULL in what is published; nothing is ever dropped. #}
{% macro add_missing_columns(relation) %}
  {% set existing = adapter.get_columns_in_relation(relation) | map(attribute='name') | list %}
  {% for column in model.columns.values() if column.name not in existing %}
    {% do run_query('alter table ' ~ relation ~ ' add column ' ~ column_definition(column)) %}
  {% endfor %}
{% endmacro %}

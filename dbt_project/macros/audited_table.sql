{# A table that is written, audited and published: the run writes a branch (spark.wap.branch),
   tests it there, and spark_jobs/publish makes the branch main. The table is made once, empty, from
   the model's contract, and only ever overwritten: `create or replace` would take main away from readers.

   A full refresh writes all of it. What an incremental run writes, and a full refresh after retention has dropped records,
   the model's config `replaces` says:
   `message` (rows of the messages of `set`, and `life` is what the table calls a message), `hour` (the hours of `set`),
   `hour_of_records` (the same, of hours whose records events still holds), `nothing` (rows are added), or none of these: all
   of it, for tables that are small whatever the history. #}
{% materialization audited_table, adapter='spark' %}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set existing_relation = load_relation(this) -%}
  {{ run_hooks(pre_hooks) }}

  {% do get_assert_columns_equivalent(sql) %}
  {% if existing_relation is none %}
    {% call statement('create') -%}
      {{ create_audited_table(target_relation) }}
    {%- endcall %}
  {% elif not is_change_run() %}
    {# A new version of the models is always followed by a full refresh. #}
    {% do add_missing_columns(target_relation) %}
    {% do run_query('alter table ' ~ target_relation ~ ' set tblproperties (' ~ table_properties() ~ ')') %}
  {% endif %}

  {% set columns = columns_of(target_relation) | join(', ') %}
  {% call statement('main') -%}
    {{ replace_rows(target_relation, columns, sql, config.get('replaces') if replaces_a_part() else none) }}
  {%- endcall %}

  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}

{# A table is replaced by whole partitions: what stays in one of them is written again. #}
{% macro replace_rows(relation, columns, sql, replaces) %}
  {%- set set = config.get('set', 'affected') -%}
  {%- if replaces == 'nothing' %}
    insert into {{ relation }}
  {%- elif replaces == 'message' %}
    insert into {{ relation }} replace where {{ hour_is_of(set) }}
    select {{ columns }}
    from {{ relation }}
    where
      {{ hour_is_of(set) }}
      and not {{ is_message_of(set, config.get('life', 'msg_id')) }}
    union all
  {%- elif replaces in ('hour', 'hour_of_records') %}
    {%- set replaced %}({{ day_is_of(set) }}){{ ' and ' ~ has_its_records('hour') if replaces == 'hour_of_records' }}{% endset %}
    insert into {{ relation }} replace where {{ replaced }}
    select {{ columns }}
    from {{ relation }}
    where {{ replaced }} and not {{ hour_is_of(set) }}
    union all
  {%- else %}
    insert overwrite {{ relation }} ({{ columns }})
  {%- endif %}
    select {{ columns }}
    from (
      {{ sql }}
    )
{% endmacro %}

{% macro create_audited_table(relation) %}
  create table if not exists {{ relation }} (
    {% for column in model.columns.values() -%}
      {{ column_definition(column) }}{{ ',' if not loop.last }}
    {% endfor %}
  )
  using iceberg
  {{ partition_cols(label='partitioned by') }}
  comment '{{ quoted(model.description) }}'
  tblproperties ('format-version' = '2', {{ table_properties() }})
{% endmacro %}

{# Iceberg's default keeps a file open for each partition that a task writes: the buffers of hundreds of hours fill the heap. #}
{% macro table_properties() -%}
  'write.wap.enabled' = 'true', 'write.spark.fanout.enabled' = 'false'
{%- endmacro %}

{% macro column_definition(column) -%}
  {{ column.name }} {{ column.data_type }} comment '{{ quoted(column.description) }}'
{%- endmacro %}

{% macro quoted(text) -%}
  {{ text | replace('\n', ' ') | trim | replace("\\", "\\\\") | replace("'", "\\'") }}
{%- endmacro %}

{% macro columns_of(relation) %}
  {{ return(run_query('select * from ' ~ relation ~ ' limit 0').column_names | list) }}
{% endmacro %}

{# A column that the contract gained is added, NULL in what is published; nothing is ever dropped. #}
{% macro add_missing_columns(relation) %}
  {% set existing = columns_of(relation) %}
  {% for column in model.columns.values() if column.name not in existing %}
    {% do run_query('alter table ' ~ relation ~ ' add column ' ~ column_definition(column)) %}
  {% endfor %}
{% endmacro %}

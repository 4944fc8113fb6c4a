{# A table that is written, tested and published (write-audit-publish): the run writes a branch (spark.wap.branch), tests it there,
   and spark_jobs/mart_build fast-forwards main to the branch. The table is created once, empty, from the model's contract, and only
   overwritten afterwards: `create or replace` would remove main, which readers use.

   A full refresh writes all rows. In incremental runs, and in full refreshes after retention has dropped records, the config
   `replaces` says which rows are written:
   - `message`: the rows of the messages of `set`; config `message_key` is the message key of a row, msg_id by default. An incremental
     run rewrites the files that have such rows, and adds the new rows in files of their own;
   - `hour`: the rows of the hours of `set`;
   - `hour_of_records`: as `hour`, but only hours whose records events still holds;
   - `day`: the rows of the days that have an hour of `set`, in a table by day; a full refresh writes all rows;
   - `nothing`: rows are only added;
   - not set: all rows, for tables that stay small whatever the history.

   Config `sorted_by` sorts the rows within a partition, also when maintenance compacts them, and `row_group_bytes` limits the row
   groups of the files: a reader that looks for one value skips the others. #}
{% materialization audited_table, adapter='spark' %}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set existing_relation = load_relation(this) -%}
  {{ run_hooks(pre_hooks) }}

  {# An incremental run has the files of the full refresh that compared the columns of the models with their contracts. A model may
     read its own published table, so the columns that are new in the contract come first. #}
  {% if not is_incremental_run() %}
    {% if existing_relation is not none %}{% do add_missing_columns(target_relation) %}{% endif %}
    {% do get_assert_columns_equivalent(sql) %}
  {% endif %}

  {% if existing_relation is none %}
    {# Daily marts were views in version 0.1. #}
    {% do run_query('drop view if exists ' ~ target_relation) %}
    {% call statement('create') -%}
      {{ create_audited_table(target_relation) }}
    {%- endcall %}
    {% do set_write_order(target_relation) %}
  {% elif not is_incremental_run() %}
    {# Only here: every change of the models causes a full refresh. #}
    {% do run_query('alter table ' ~ target_relation ~ ' set tblproperties (' ~ table_properties() ~ ')') %}
    {% do add_partitions(target_relation) %}
  {% endif %}

  {% set columns = columns_of(target_relation) %}
  {% set replaces = config.get('replaces') if replaces_some_rows() else none %}
  {% set replaces = none if replaces == 'day' and not is_incremental_run() else replaces %}
  {% if replaces == 'message' and is_incremental_run() %}
    {% do delete_rows_of_messages(target_relation) %}
    {% set replaces = 'nothing' %}
  {% endif %}
  {% call statement('main') -%}
    {{ replace_rows(target_relation, columns, sql, replaces) }}
  {%- endcall %}

  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}

{# Delete the published rows of the messages of the set. Copy-on-write: only the files that have one of them are rewritten. #}
{% macro delete_rows_of_messages(relation) %}
  {% set set = config.get('set', 'affected') %}
  {% if hours_of(set) %}
    {% do run_query(
      'delete from ' ~ relation ~ ' where ' ~ hour_is_in(set) ~ ' and ' ~ is_message_of(set, config.get('message_key', 'msg_id'))
    ) %}
  {% endif %}
{% endmacro %}

{# Iceberg replaces whole partitions, so the rows of a partition that stay are written again beside the new rows. #}
{% macro replace_rows(relation, columns, sql, replaces) %}
  {%- set set = config.get('set', 'affected') -%}
  {%- if replaces == 'nothing' %}
    insert into {{ relation }}
  {%- elif replaces == 'message' %}
    insert into {{ relation }} replace where {{ hour_is_in(set) }}
    select {{ columns | join(', ') }}
    from {{ relation }}
    where
      {{ hour_is_in(set) }}
      and not {{ is_message_of(set, config.get('message_key', 'msg_id')) }}
    union all
  {%- elif replaces == 'day' %}
    insert into {{ relation }} replace where {{ date_is_in(set) }}
  {%- elif replaces in ('hour', 'hour_of_records') %}
    {%- set replaced %}({{ day_is_in(set) }}){{ ' and ' ~ is_retained('hour') if replaces == 'hour_of_records' }}{% endset %}
    insert into {{ relation }} replace where {{ replaced }}
    select {{ columns | join(', ') }}
    from {{ relation }}
    where {{ replaced }} and not {{ hour_is_in(set) }}
    union all
  {%- else %}
    insert overwrite {{ relation }} ({{ columns | join(', ') }})
  {%- endif %}
    select
      {% for column in columns -%}
      {{ column if column in model.columns else 'null as ' ~ column }}{{ ', ' if not loop.last }}
      {%- endfor %}
    from (
      {{ sql }}
    )
    {#- A row of another day would be added to those that the day has. -#}
    {%- if replaces == 'day' %} where {{ date_is_in(set) }}{% endif %}
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

{% macro set_write_order(relation) %}
  {% if config.get('sorted_by') %}
    {% do run_query('alter table lake.' ~ relation ~ ' write distributed by partition locally ordered by ' ~ config.get('sorted_by')) %}
  {% endif %}
{% endmacro %}

{# Partition a table of an earlier version that had no partitions; its files stay as they are until they are rewritten. #}
{% macro add_partitions(relation) %}
  {% if config.get('partition_by') and 'partition' not in columns_of(relation ~ '.partitions') %}
    {% do run_query('alter table lake.' ~ relation ~ ' add partition field ' ~ config.get('partition_by')) %}
    {% do set_write_order(relation) %}
  {% endif %}
{% endmacro %}

{# With Iceberg's default (fanout), a task keeps one file open per partition: the buffers of hundreds of hours would fill the heap. #}
{% macro table_properties() -%}
  'write.wap.enabled' = 'true', 'write.spark.fanout.enabled' = 'false'
  {%- if config.get('row_group_bytes') %}, 'write.parquet.row-group-size-bytes' = '{{ config.get('row_group_bytes') }}'{% endif %}
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

{# Add the columns that are new in the contract; published rows have NULL there. No column is ever dropped: new rows have NULL in a
   column that the contract has no longer, or not yet, while a rebuild adds it. #}
{% macro add_missing_columns(relation) %}
  {% set existing = columns_of(relation) %}
  {% for column in model.columns.values() if column.name not in existing %}
    {% do run_query('alter table ' ~ relation ~ ' add column ' ~ column_definition(column)) %}
  {% endfor %}
{% endmacro %}

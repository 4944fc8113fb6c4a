{# How dbt inserts the rows of a seed. In a Spark session dbt-spark's own macro writes the text 'None' for an empty field, and fails
   on a quote. #}
{% macro spark__load_csv_rows(model, agate_table) %}
  {% if not agate_table.rows %}{{ return('') }}{% endif %}
  {% set types = model['config'].get('column_types', {}) %}
  {% set statement %}
    insert into {{ this }} values
    {% for row in agate_table.rows -%}
    (
      {%- for name in agate_table.column_names -%}
      cast({{ 'null' if row[name] is none else "'" ~ quoted(row[name] | string) ~ "'" }} as {{ types[name] }}){{ ', ' if not loop.last }}
      {%- endfor -%}
    ){{ ',' if not loop.last }}
    {% endfor %}
  {% endset %}
  {% do adapter.add_query(statement, abridge_sql_log=True) %}
  {{ return(statement) }}
{% endmacro %}

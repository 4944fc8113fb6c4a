{# The tables that exist in a schema, as dbt-spark lists them. `dbt docs generate` gets none, so it needs no Spark session: the
   columns and types on its page are those of the YAML files. #}
{% macro spark__list_relations_without_caching(relation) %}
  {% if flags.WHICH == 'generate' %}{{ return([]) }}{% endif %}
  {% call statement('list_relations_without_caching', fetch_result=True) -%}
    show table extended in {{ relation.schema }} like '*'
  {%- endcall %}
  {{ return(load_result('list_relations_without_caching').table) }}
{% endmacro %}

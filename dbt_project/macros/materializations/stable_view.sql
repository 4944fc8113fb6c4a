{# A view that is replaced only if its SQL has changed. Iceberg writes a metadata file for every replacement, even with the same SQL,
   and never deletes one: with hundreds of runs a day they would accumulate. #}
{% materialization stable_view, adapter='spark' %}
  {%- set target_relation = this.incorporate(type='view') -%}
  {%- set digest = local_md5(sql) -%}
  {% if view_digest(target_relation) == digest %}
    {% call noop_statement('main', 'UNCHANGED') %}{% endcall %}
  {% else %}
    {% if config.get('contract').enforced %}
      {% do get_assert_columns_equivalent(sql) %}
    {% endif %}
    {% call statement('main') -%}
      create or replace view {{ target_relation }}
      comment '{{ quoted(model.description) }}'
      tblproperties ('trace.sql_digest' = '{{ digest }}')
      as
      {{ sql }}
    {%- endcall %}
  {% endif %}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}

{% macro view_digest(relation) %}
  {% set found = run_query("show views in " ~ relation.schema ~ " like '" ~ relation.identifier ~ "'") %}
  {% if found | length == 0 %}
    {{ return(none) }}
  {% endif %}
  {% set property = run_query("show tblproperties " ~ relation ~ " ('trace.sql_digest')") %}
  {{ return(property.rows[0][1]) }}
{% endmacro %}

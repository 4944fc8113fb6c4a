{# A view that is replaced only if its SQL has changed. Iceberg writes a metadata file for every replacement, even with the same SQL,
   and never deletes one: with hundreds of runs a day they would accumulate. The job passes the digests of the SQL that the views
   have (spark_jobs/mart_build/views.py). #}
{% materialization stable_view, adapter='spark' %}
  {%- set target_relation = this.incorporate(type='view') -%}
  {%- set digest = local_md5(sql) -%}
  {% if var('view_digests').get(target_relation.schema ~ '.' ~ target_relation.identifier) == digest %}
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

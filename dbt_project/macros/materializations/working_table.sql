{# A table in lake.changes that exists for one run: it is computed once for all models that read it, which keeps their query plans
   small. The job drops it at the end of the run.

   Config `only_in`: `incremental_run` or `refresh_after_retention`. In other runs nothing reads the model, and it is not built. #}
{% materialization working_table, adapter='spark' %}
  {% set target_relation = this.incorporate(type='table') %}
  {% set only_in = config.get('only_in') %}
  {% if (only_in == 'incremental_run' and not is_incremental_run())
    or (only_in == 'refresh_after_retention' and not is_refresh_after_retention()) %}
    {% call noop_statement('main', 'NOT NEEDED') %}{% endcall %}
    {{ return({'relations': []}) }}
  {% endif %}
  {% do run_query('drop table if exists ' ~ target_relation ~ ' purge') %}
  {% call statement('main') -%}
    create table {{ target_relation }} using iceberg as
    {{ sql }}
  {%- endcall %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}

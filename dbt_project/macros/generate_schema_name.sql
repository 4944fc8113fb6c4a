{# Schemas are exactly staging, intermediate and marts, without the target's schema before them. #}
{% macro generate_schema_name(custom_schema_name, node) -%}
  {{ custom_schema_name | trim if custom_schema_name else target.schema }}
{%- endmacro %}

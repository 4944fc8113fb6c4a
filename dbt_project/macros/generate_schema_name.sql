{# Schemas have exactly the configured names (staging, intermediate, marts, changes), without the target's schema as a prefix. #}
{% macro generate_schema_name(custom_schema_name, node) -%}
  {{ custom_schema_name | trim if custom_schema_name else target.schema }}
{%- endmacro %}

{# Schemas have exactly the configured names (staging, intermediate, marts, changes), without the target's schema as a prefix. A
   rebuild has views, seeds and working tables of its own, as normal runs go on beside it with those of the published models. #}
{% macro generate_schema_name(custom_schema_name, node) -%}
  {%- set schema = custom_schema_name | trim if custom_schema_name else target.schema -%}
  {{ schema }}{{ suffix_of_rebuild() if schema in ('staging', 'changes') }}
{%- endmacro %}

{% macro suffix_of_rebuild() -%}
  {{ '_of_rebuild' if var('rebuild') }}
{%- endmacro %}

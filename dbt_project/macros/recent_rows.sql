{# The rows of the last four days before each cluster's watermark: no window of slo_burn looks further back. #}
{% macro recent_rows(relation) -%}
  (
    select * from {{ relation }}
    where
      {% for cluster, watermark in var('watermarks').items() -%}
      (cluster = '{{ cluster }}' and hour >= timestamp '{{ watermark }}' - interval '4' day) or
      {% endfor -%}
      false
  )
{%- endmacro %}

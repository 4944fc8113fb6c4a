{# A relation: the rows of the last four days before each cluster's watermark, which cover the longest window of slo_burn.
   No row, unless an objective uses the indicator that the rows are read for. #}
{% macro recent_rows(relation, indicator, objectives) -%}
  (
    select * from {{ relation }}
    where
      {% if indicator in used_indicators(objectives) -%}
      {% for cluster, watermark in var('watermarks').items() -%}
      (cluster = '{{ cluster }}' and hour >= timestamp '{{ watermark }}' - interval '4' day) or
      {% endfor -%}
      {% endif -%}
      false
  )
{%- endmacro %}

{# A list: the indicators of all objectives. All indicators where no query may be run, and in a unit test, where the objectives are
   a CTE. #}
{% macro used_indicators(objectives) %}
  {% if objectives.is_cte or not can_query() %}
    {{ return(['consume_success', 'delivery_success', 'end_to_end_latency', 'send_latency']) }}
  {% endif %}
  {{ return(run_query('select distinct indicator from ' ~ objectives).columns[0].values() | list) }}
{% endmacro %}

{# The rows of the last four days before each cluster's watermark: no window of slo_burn looks further back. None, unless an
   objective names the indicator that they are read for. #}
{% macro recent_rows(relation, indicator, objectives) -%}
  (
    select * from {{ relation }}
    where
      {% if indicator in stated_indicators(objectives) -%}
      {% for cluster, watermark in var('watermarks').items() -%}
      (cluster = '{{ cluster }}' and hour >= timestamp '{{ watermark }}' - interval '4' day) or
      {% endfor -%}
      {% endif -%}
      false
  )
{%- endmacro %}

{# The indicators of all objectives; in a unit test, whose objectives are no table, and where there is no session, every one. #}
{% macro stated_indicators(objectives) %}
  {% if objectives.is_cte or not is_running() %}
    {{ return(['consume_success', 'delivery_success', 'end_to_end_latency', 'send_latency']) }}
  {% endif %}
  {{ return(run_query('select distinct indicator from ' ~ objectives).columns[0].values() | list) }}
{% endmacro %}

{# Fails with each named condition that some row does not meet, and the number of such rows;
   one pass over the model for all conditions. A condition that is NULL is not met. #}
{% test holds(model, conditions) %}
with violations as (
  select
    {% for name, condition in conditions.items() -%}
    count_if(not coalesce({{ condition }}, false)) as {{ name }}{{ ',' if not loop.last }}
    {% endfor %}
  from {{ written_rows(model) }}
)

{% for name in conditions -%}
select
  '{{ name }}' as condition_name,
  {{ name }} as failing_rows
from violations
where {{ name }} > 0
{{ 'union all' if not loop.last }}
{% endfor %}
{% endtest %}

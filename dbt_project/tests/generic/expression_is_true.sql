{# As dbt_utils.expression_is_true, with two differences: an expression that is NULL fails, and `expression` may also be a mapping
   from a name to an expression. All expressions of a mapping are checked in one scan of the model; the test returns a row per
   failed expression, with its name and the number of failing rows. It checks the rows that the run has written. #}
{% test expression_is_true(model, expression, column_name=none) %}
{%- set subject = column_name ~ ' ' if column_name else '' -%}
{%- set expressions = expression if expression is mapping else {'expression': expression} -%}
with failures as (
  select
    {% for name, condition in expressions.items() -%}
    count_if(not coalesce({{ subject }}{{ condition }}, false)) as {{ name }}{{ ',' if not loop.last }}
    {% endfor %}
  from {{ written_rows(model) }}
)

{# Not a union of a query per expression: Spark would compute `failures` for each of them. #}
select
  expression_name,
  failing_rows
from failures
unpivot (failing_rows for expression_name in ({{ expressions | join(', ') }}))
where failing_rows > 0
{% endtest %}

{# As dbt_utils.unique_combination_of_columns: fails for each combination of values that more than one row has; NULLs are equal.
   It checks the rows that the run has written. #}
{% test unique_combination_of_columns(model, combination_of_columns) %}
select
  {{ combination_of_columns | join(', ') }},
  count(*) as copies
from {{ written_rows(model) }}
group by {{ combination_of_columns | join(', ') }}
having count(*) > 1
{% endtest %}

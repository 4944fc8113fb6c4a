{# Fails with the keys that stand on more than one row; NULLs are equal here. #}
{% test grain(model, key) %}
select
  {{ key | join(', ') }},
  count(*) as copies
from {{ written_rows(model) }}
group by {{ key | join(', ') }}
having count(*) > 1
{% endtest %}

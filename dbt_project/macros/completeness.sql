{# A relation with pairs, ends_without_begin and begins_without_end, and what they say of lost records (docs/definitions.md). #}
{% macro with_estimated_loss(relation) -%}
select
  *,
  records_estimated - records_seen as records_lost_estimated
from (
  select
    *,
    2 * pairs + ends_without_begin + begins_without_end as records_seen,
    -- Lincoln and Petersen: twice the attempts that the begins and the ends, each a sample of them, tell of.
    2 * (pairs + begins_without_end) * (pairs + ends_without_begin) / nullif(pairs, 0) as records_estimated
  from {{ relation }}
)
{%- endmacro %}

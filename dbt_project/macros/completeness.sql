{# A relation with pairs, ends_without_begin and begins_without_end, plus the estimated number of lost records
   (docs/definitions.md). #}
{% macro with_estimated_loss(relation) -%}
select
  *,
  records_estimated - records_seen as records_lost_estimated
from (
  select
    *,
    2 * pairs + ends_without_begin + begins_without_end as records_seen,
    -- The Lincoln–Petersen estimate of the number of attempts, from the begins and the ends as two samples; two records each.
    2 * (pairs + begins_without_end) * (pairs + ends_without_begin) / nullif(pairs, 0) as records_estimated
  from {{ relation }}
)
{%- endmacro %}

{# A latency mart by hour: (key, hour), of the rows of a fact for which `where` holds.
   The column `rows_are` counts these rows, `counts` are more aggregates by name, and then come the columns of the histogram of
   `milliseconds`. Rows become buckets first, so that a histogram is a list of a few hundred entries, whatever the traffic. #}
{% macro latency_by_hour(fact, key, milliseconds, rows_are, counts={}, where='true') -%}
{%- set key = key | join(', ') -%}
with totals as (
  select
    {{ key }},
    hour,
    case when {{ milliseconds }} >= 0 then {{ histogram_bucket(milliseconds) }} end as bucket,
    count(*) as cases,
    count_if({{ milliseconds }} < 0) as latency_negative,
    cast(max({{ milliseconds }}) filter (where {{ milliseconds }} >= 0) as double) as max_ms
    {%- for name, aggregate in counts.items() %},
    {{ aggregate }} as {{ name }}
    {%- endfor %}
  from {{ in_hours_of('affected', fact) }}
  where {{ where }}
  group by all
),

hours as (
  select
    {{ key }},
    hour,
    sum(cases) as {{ rows_are }},
    {%- for name in counts %}
    sum({{ name }}) as {{ name }},
    {%- endfor %}
    {{ latency_of_buckets() }}
  from totals
  group by {{ key }}, hour
)

select
  {{ key }},
  hour,
  {{ rows_are }},
  {% for name in counts -%}
  {{ name }},
  {% endfor -%}
  {{ latency_columns() }}
from hours
{%- endmacro %}

{# Aggregate by the mart's key over rows of one bucket each. #}
{% macro latency_of_buckets() -%}
  coalesce(sum(cases) filter (where bucket is not null), 0) as latency_count,
    sum(latency_negative) as latency_negative,
    max(max_ms) as max_ms,
    {{ histogram_of('bucket', 'cases') }} as histogram
{%- endmacro %}

{# The columns that people read, of `latency_of_buckets`. #}
{% macro latency_columns() -%}
  latency_count,
  latency_negative,
  max_ms,
  {% for name, per_mille in [('p50', 500), ('p90', 900), ('p95', 950), ('p99', 990), ('p999', 999)] -%}
  {{ histogram_percentile('histogram', per_mille, 'latency_count', 'max_ms') }} as {{ name }}_ms,
  {% endfor -%}
  histogram
{%- endmacro %}

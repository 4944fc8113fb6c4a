{# A latency mart by hour: one row per (key, hour), from the rows of a fact for which `where` is true.
   The column named by `row_count` counts these rows, `counts` maps the names of further columns to aggregates, and the columns of
   the histogram of `milliseconds` follow. The rows are grouped by bucket first, so that no histogram is built from more than a few
   thousand entries, whatever the traffic. #}
{% macro latency_by_hour(fact, key, milliseconds, row_count, counts={}, where='true') -%}
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
  from {{ rows_in_hours_of('affected', fact) }}
  where {{ where }}
  group by all
),

hours as (
  select
    {{ key }},
    hour,
    sum(cases) as {{ row_count }},
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
  {{ row_count }},
  {% for name in counts -%}
  {{ name }},
  {% endfor -%}
  {{ latency_columns() }}
from hours
{%- endmacro %}

{# Aggregates over rows of one bucket each, grouped by the mart's key. #}
{% macro latency_of_buckets() -%}
  coalesce(sum(cases) filter (where bucket is not null), 0) as latency_count,
    sum(latency_negative) as latency_negative,
    max(max_ms) as max_ms,
    {{ histogram_of('bucket', 'cases') }} as histogram
{%- endmacro %}

{# The columns of a latency mart, from those of `latency_of_buckets`. #}
{% macro latency_columns() -%}
  latency_count,
  latency_negative,
  max_ms,
  {% for name, per_mille in [('p50', 500), ('p90', 900), ('p95', 950), ('p99', 990), ('p999', 999)] -%}
  {{ histogram_percentile('histogram', per_mille, 'latency_count', 'max_ms') }} as {{ name }}_ms,
  {% endfor -%}
  histogram
{%- endmacro %}

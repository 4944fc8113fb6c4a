{# A mart by day, one row per (key, day), from the same mart by hour. `counts` are summed, of `maxima` the largest value is taken.
   Histograms are summed bucket by bucket: with `histogram='latency'` the percentiles are computed from the sum, a mart with
   `histogram='counts'` has none. For that, each hour is split into one row per bucket; columns other than the histogram are taken
   from the first of these rows. `set` is the set of the hours that the run writes. #}
{% macro by_day(hourly, key, counts, maxima=[], histogram=none, set='affected') -%}
{%- set is_latency = histogram == 'latency' -%}
{%- set key = key | join(', ') -%}
{%- if not histogram -%}
select
  {{ key }},
  date(hour) as day
  {%- for name in counts %},
  sum({{ name }}) as {{ name }}
  {%- endfor %}
  {%- for name in maxima %},
  max({{ name }}) as {{ name }}
  {%- endfor %}
from {{ rows_in_days_of(set, hourly) }}
group by {{ key }}, date(hour)
{%- else -%}
with hours as (
  select
    hourly.*,
    in_hour.bucket,
    in_hour.cases,
    coalesce(in_hour.entry_index, 0) = 0 as is_first
  from {{ rows_in_days_of(set, hourly) }} as hourly
    lateral view outer posexplode(hourly.histogram) in_hour as entry_index, bucket, cases
),

totals as (
  select
    {{ key }},
    date(hour) as day,
    bucket,
    sum(cases) as cases
    {%- for name in counts + (['latency_negative'] if is_latency else []) %},
    sum({{ name }}) filter (where is_first) as {{ name }}
    {%- endfor %}
    {%- for name in maxima + (['max_ms'] if is_latency else []) %},
    max({{ name }}) as {{ name }}
    {%- endfor %}
  from hours
  group by {{ key }}, date(hour), bucket
),

days as (
  select
    {{ key }},
    day
    {%- for name in counts %},
    sum({{ name }}) as {{ name }}
    {%- endfor %}
    {%- for name in maxima %},
    max({{ name }}) as {{ name }}
    {%- endfor %},
    {% if is_latency %}{{ latency_of_buckets() }}{% else %}{{ histogram_of('bucket', 'cases') }} as histogram{% endif %}
  from totals
  group by {{ key }}, day
)

select
  {{ key }},
  day,
  {% for name in counts + maxima -%}
  {{ name }},
  {% endfor -%}
  {% if is_latency %}{{ latency_columns() }}{% else %}histogram{% endif %}
from days
{%- endif %}
{%- endmacro %}

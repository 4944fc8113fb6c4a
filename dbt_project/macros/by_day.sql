{# A mart by day, from the same mart by hour: (key, day). Counts are summed, maxima are kept. Histograms are summed bucket by
   bucket: `histogram='latency'` is a latency mart, whose percentiles are read from the sum; `histogram='counts'` has none.
   An hour becomes a row a bucket; what is no histogram is taken from the first of them. #}
{% macro by_day(hourly, key, counts, maxima=[], histogram=none) -%}
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
from {{ hourly }}
group by {{ key }}, date(hour)
{%- else -%}
with hours as (
  select
    hourly.*,
    in_hour.bucket,
    in_hour.cases,
    coalesce(in_hour.place, 0) = 0 as is_first
  from {{ hourly }} as hourly
    lateral view outer posexplode(hourly.histogram) in_hour as place, bucket, cases
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

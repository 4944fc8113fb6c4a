{# Latency histograms: map<int, bigint>, from bucket to count. Each power of two is split into 128 buckets of equal width, so a
   bucket is exact below 256 ms, and at most 1/128 of its value wide above. All arithmetic is on integers: the result does not
   depend on the order of the rows, and the histograms of hours add up to those of days. #}

{# The bucket of a duration in ms, rounded down to whole milliseconds. #}
{% macro histogram_bucket(milliseconds) -%}
  {%- set ms = 'cast(floor(' ~ milliseconds ~ ') as bigint)' -%}
  {%- set halvings = 'greatest(length(bin(' ~ ms ~ ')) - 8, 0)' -%}
  cast({{ halvings }} * 128 + shiftright({{ ms }}, {{ halvings }}) as int)
{%- endmacro %}

{# The midpoint of a bucket, in ms. #}
{% macro histogram_bucket_value(bucket) -%}
  {%- set halvings = 'greatest(' ~ bucket ~ ' div 128 - 1, 0)' -%}
  cast(
    shiftleft(cast({{ bucket }} - {{ halvings }} * 128 as bigint), cast({{ halvings }} as int))
    + (shiftleft(1L, cast({{ halvings }} as int)) - 1) / 2.0
    as double
  )
{%- endmacro %}

{# Aggregate: a histogram of rows (bucket, number of cases). Rows without a bucket are left out. #}
{% macro histogram_of(bucket, cases) -%}
  map_from_entries(array_sort(collect_list(struct({{ bucket }}, {{ cases }})) filter (where {{ bucket }} is not null)))
{%- endmacro %}

{# The nearest-rank percentile of a histogram, per mille (990 is p99): the midpoint of the bucket that contains the
   ceil(n * per_mille / 1000)-th smallest of its `total` cases, at most `maximum`. NULL if the histogram is empty. #}
{% macro histogram_percentile(histogram, per_mille, total, maximum) -%}
  aggregate(
    array_sort(map_entries({{ histogram }})),
    struct(0L as seen, cast(null as int) as bucket),
    (walk, entry) -> struct(
      walk.seen + entry.value as seen,
      case
        when walk.bucket is not null then walk.bucket
        when (walk.seen + entry.value) * 1000 >= {{ total }} * {{ per_mille }} then entry.key
      end as bucket
    ),
    walk -> least({{ histogram_bucket_value('walk.bucket') }}, {{ maximum }})
  )
{%- endmacro %}

{# Latency histograms: map<int, bigint>, bucket to count. Buckets are powers of two cut into 128
   equal parts, so a bucket is exact below 256 ms and at most 1/128 of its value wide above.
   Integers only: the same rows give the same bits, in any order, and counts of hours add up to days. #}

{# The bucket of a duration in ms; fractions of a millisecond are cut off. #}
{% macro histogram_bucket(milliseconds) -%}
  {%- set ms = 'cast(floor(' ~ milliseconds ~ ') as bigint)' -%}
  {%- set halvings = 'greatest(length(bin(' ~ ms ~ ')) - 8, 0)' -%}
  cast({{ halvings }} * 128 + shiftright({{ ms }}, {{ halvings }}) as int)
{%- endmacro %}

{# The middle of a bucket, in ms. #}
{% macro histogram_bucket_value(bucket) -%}
  {%- set halvings = 'greatest(' ~ bucket ~ ' div 128 - 1, 0)' -%}
  cast(
    shiftleft(cast({{ bucket }} - {{ halvings }} * 128 as bigint), cast({{ halvings }} as int))
    + (shiftleft(1L, cast({{ halvings }} as int)) - 1) / 2.0
    as double
  )
{%- endmacro %}

{# Aggregate: one histogram of rows (bucket, number of cases); rows without a bucket are not in it. #}
{% macro histogram_of(bucket, cases) -%}
  map_from_entries(array_sort(collect_list(struct({{ bucket }}, {{ cases }})) filter (where {{ bucket }} is not null)))
{%- endmacro %}

{# The nearest-rank percentile of a histogram, per mille (990 is p99): the middle of the bucket that
   holds the ceil(n * per_mille / 1000)-th smallest of its `total` cases; never above `maximum`. NULL if empty. #}
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

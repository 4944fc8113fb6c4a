-- One row per cluster: the inputs of its marts, and what decides when they change although no record is new. Published, because
-- the job that asks whether a build is due reads it without Spark (docs/incremental.md).
{{ config(materialized='audited_table', contract={'enforced': true}) }}
with reviews as (
  {% for fact in ['fct_consume_attempts', 'fct_transactions', 'fct_messages'] %}
    select
      cluster,
      min(next_review_at) as next_review_at
    from {{ ref(fact) }}
    where next_review_at is not null
    group by cluster
    union all
  {% endfor %}
  -- From this time on, orphan_rate judges a message, whether it was consumed or not.
  select
    cluster,
    min(due_at) + {{ limit('grace') }} as next_review_at
  from {{ ref('fct_messages') }}
  where
    (
      {% for cluster, watermark in var('watermarks').items() %}
        (cluster = '{{ cluster }}' and due_at > timestamp '{{ watermark }}' - {{ limit('grace') }})
        or
      {% endfor %}
      false
    )
  group by cluster
),

next_reviews as (
  select
    cluster,
    min(next_review_at) as next_review_at
  from reviews
  group by cluster
),

-- Times are literals, so Iceberg skips the files of older messages.
unconsumed as (
  select
    cluster,
    max(greatest(published_at, due_at, broker_due_at)) as last_unconsumed_at
  from {{ ref('orphaned_messages') }}
  where
    expected_group is not null
    and (counts_in_orphan_rate or cause = 'in_backlog')
    and (
      {% for cluster, watermark in var('watermarks').items() %}
        {% set since = "timestamp '" ~ watermark ~ "' - interval '1' day" %}
        (
          cluster = '{{ cluster }}'
          and (published_at >= {{ since }} or due_at >= {{ since }} or broker_due_at >= {{ since }})
        )
        or
      {% endfor %}
      false
    )
  group by cluster
)

select
  inputs.cluster,
  inputs.watermark,
  inputs.as_of,
  next_reviews.next_review_at,
  unconsumed.last_unconsumed_at
from {{ ref('int_coverage_inputs') }} as inputs
left join next_reviews
  on inputs.cluster = next_reviews.cluster
left join unconsumed
  on inputs.cluster = unconsumed.cluster

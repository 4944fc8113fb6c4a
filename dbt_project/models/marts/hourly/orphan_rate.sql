-- One row per topic, expected group and hour of publication: (cluster, topic, expected_group, hour), of messages that the group
-- was expected to consume.
{{ config(partition_by='days(hour)', replaces='hour') }}
{%- set causes = [
  'trace_gap', 'rolled_back', 'recalled', 'half_uncommitted', 'filtered', 'filter_unknown', 'delayed_not_due',
  'untraced_batch', 'within_grace', 'in_flight', 'not_returned', 'dead_letter', 'retrying', 'skipped',
  'untraced_consumer', 'lost_trace', 'passed_untraced', 'group_deleted', 'in_backlog', 'backlog_overdue', 'broadcasting', 'gone',
  'filtered_or_lost'
] %}
{%- set evidences = ['proven', 'inferred', 'unknown'] %}
with expected_messages as (
  select
    messages.cluster,
    messages.topic,
    messages.consumer_group,
    messages.hour,
    watermarks.watermark >= messages.due_at + {{ limit('grace') }} as is_past_grace
  from {{ ref('int_expected_deliveries_in_affected_hours') }} as messages
  left join {{ ref('int_watermarks') }} as watermarks
    on messages.cluster = watermarks.cluster
),

expected as (
  select
    cluster,
    topic,
    consumer_group as expected_group,
    hour,
    count(*) as expected,
    count_if(is_past_grace) as past_grace
  from expected_messages
  group by cluster, topic, consumer_group, hour
),

unconsumed as (
  select
    orphaned.cluster,
    orphaned.topic,
    orphaned.expected_group,
    orphaned.hour,
    {% for cause in causes %}
      count_if(orphaned.cause = '{{ cause }}') as {{ cause }},
    {% endfor %}
    count(*) as unconsumed,
    count_if(orphaned.counts_in_orphan_rate) as orphaned,
    {% for evidence in evidences %}
      count_if(orphaned.counts_in_orphan_rate and orphaned.evidence = '{{ evidence }}') as orphaned_{{ evidence }},
    {% endfor %}
    count_if(
      not orphaned.counts_in_orphan_rate and watermarks.watermark >= orphaned.due_at + {{ limit('grace') }}
    ) as explained_past_grace
  from {{ rows_in_hours_of('affected', ref('orphaned_messages')) }} as orphaned
  left join {{ ref('int_watermarks') }} as watermarks
    on orphaned.cluster = watermarks.cluster
  where orphaned.expected_group is not null
  group by orphaned.cluster, orphaned.topic, orphaned.expected_group, orphaned.hour
)

select
  expected.cluster,
  expected.topic,
  expected.expected_group,
  expected.hour,
  expected.expected,
  expected.expected - coalesce(unconsumed.unconsumed, 0) as consumed,
  expected.past_grace - coalesce(unconsumed.explained_past_grace, 0) as judged,
  {% for cause in causes %}
    coalesce(unconsumed.{{ cause }}, 0) as {{ cause }},
  {% endfor %}
  {% for evidence in evidences %}
    coalesce(unconsumed.orphaned_{{ evidence }}, 0) as orphaned_{{ evidence }},
  {% endfor %}
  coalesce(unconsumed.orphaned, 0) as orphaned
from expected
left join unconsumed
  on
    expected.cluster = unconsumed.cluster
    and expected.topic = unconsumed.topic
    and expected.expected_group = unconsumed.expected_group
    and expected.hour = unconsumed.hour

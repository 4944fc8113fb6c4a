-- One row a message whose deliveries, orphans and summary are computed anew: the changed ones, and those that depend on a
-- context that changed, as far back as events are kept. Such changes are rare, so published tables are read only for the kinds
-- that there are.
{{ config(materialized='working_table', schema='changes', enabled=is_change_run()) }}
{%- set kinds = context_changes() %}

select
  life_cluster,
  life
from {{ working_table('int_changed_messages') }}
{% if 'expected' in kinds %}
  union
  select
    messages.cluster as life_cluster,
    messages.msg_id as life
  from {{ published('fct_messages') }} as messages
  inner join {{ working_table('int_context_changes') }} as changes
    on
      changes.kind = 'expected'
      and messages.cluster = changes.cluster
      and messages.topic = changes.topic
      and messages.published_at between changes.changed_from and changes.changed_to
  where
    messages.is_published and messages.hour >= timestamp '{{ kinds['expected'] }}'
    and {{ has_its_records('messages.hour') }}
{% endif %}
{% if 'broadcast' in kinds %}
  union
  select
    deliveries.cluster as life_cluster,
    deliveries.msg_id as life
  from {{ published('fct_deliveries') }} as deliveries
  inner join {{ working_table('int_context_changes') }} as changes
    on
      changes.kind = 'broadcast'
      and deliveries.cluster = changes.cluster
      and deliveries.consumer_group = changes.consumer_group
  where {{ has_its_records('deliveries.hour') }} and {{ has_its_records('coalesce(deliveries.published_at, deliveries.hour)') }}
{% endif %}
{% if 'history' in kinds %}
  union
  select
    deliveries.cluster as life_cluster,
    deliveries.msg_id as life
  from {{ published('fct_deliveries') }} as deliveries
  inner join {{ working_table('int_context_changes') }} as changes
    on
      changes.kind = 'history'
      and deliveries.cluster = changes.cluster
      and deliveries.first_attempt_at
      between changes.changed_from and changes.changed_to + {{ limit(['retry_horizon', 'max_delay']) }}
  where {{ has_its_records('deliveries.hour') }} and {{ has_its_records('coalesce(deliveries.published_at, deliveries.hour)') }}
{% endif %}
{% if 'gap' in kinds %}
  union
  select
    orphaned.cluster as life_cluster,
    orphaned.msg_id as life
  from {{ published('orphaned_messages') }} as orphaned
  inner join {{ working_table('int_context_changes') }} as changes
    on
      changes.kind = 'gap'
      and orphaned.cluster = changes.cluster
      and {{ can_be_in_gap('orphaned', 'changes.changed_from', 'changes.changed_to') }}
  where {{ has_its_records('orphaned.hour') }}
{% endif %}

-- One row per message whose deliveries, orphans and summary are computed again: the changed and the due messages, and those that
-- depend on a changed context and whose records events still holds. Such changes are rare, so a published table is read only if a
-- change of that kind exists.
{{ config(only_in='incremental_run') }}
{%- set kinds = context_changes() %}

select
  message_cluster,
  message_key
from {{ working_table('int_changed_messages') }}
union
select
  message_cluster,
  message_key
from {{ working_table('int_due_messages') }}
{% if 'expected' in kinds %}
  union
  select
    messages.cluster as message_cluster,
    messages.msg_id as message_key
  from {{ published('fct_messages') }} as messages
  inner join {{ working_table('int_context_changes') }} as changes
    on
      changes.kind = 'expected'
      and messages.cluster = changes.cluster
      and messages.topic = changes.topic
      and messages.published_at between changes.changed_from and changes.changed_to
  where
    messages.is_published and messages.hour >= timestamp '{{ kinds['expected'] }}'
    and {{ is_retained('messages.hour') }}
{% endif %}
{% if 'broadcast' in kinds %}
  union
  select
    deliveries.cluster as message_cluster,
    deliveries.msg_id as message_key
  from {{ published('fct_deliveries') }} as deliveries
  inner join {{ working_table('int_context_changes') }} as changes
    on
      changes.kind = 'broadcast'
      and deliveries.cluster = changes.cluster
      and deliveries.consumer_group = changes.consumer_group
  where {{ is_retained('deliveries.hour') }} and {{ is_retained('coalesce(deliveries.published_at, deliveries.hour)') }}
{% endif %}
{% if 'history' in kinds %}
  union
  select
    deliveries.cluster as message_cluster,
    deliveries.msg_id as message_key
  from {{ published('fct_deliveries') }} as deliveries
  inner join {{ working_table('int_context_changes') }} as changes
    on
      changes.kind = 'history'
      and deliveries.cluster = changes.cluster
      and deliveries.first_attempt_at
      between changes.changed_from and changes.changed_to + {{ limit(['retry_horizon', 'max_delay']) }}
  where {{ is_retained('deliveries.hour') }} and {{ is_retained('coalesce(deliveries.published_at, deliveries.hour)') }}
{% endif %}
{% if 'gap' in kinds %}
  union
  select
    orphaned.cluster as message_cluster,
    orphaned.msg_id as message_key
  from {{ published('orphaned_messages') }} as orphaned
  inner join {{ working_table('int_context_changes') }} as changes
    on
      changes.kind = 'gap'
      and orphaned.cluster = changes.cluster
      and {{ can_be_in_gap('orphaned', 'changes.changed_from', 'changes.changed_to') }}
  where {{ is_retained('orphaned.hour') }}
{% endif %}
{% if 'subscription' in kinds %}
  union
  select
    orphaned.cluster as message_cluster,
    orphaned.msg_id as message_key
  from {{ published('orphaned_messages') }} as orphaned
  inner join {{ working_table('int_context_changes') }} as changes
    on
      changes.kind = 'subscription'
      and orphaned.cluster = changes.cluster
      and orphaned.topic = changes.topic
      and orphaned.expected_group = changes.consumer_group
      and orphaned.published_at between changes.changed_from and changes.changed_to
  where orphaned.hour >= timestamp '{{ kinds['subscription'] }}' and {{ is_retained('orphaned.hour') }}
  -- Where no group is expected, each group that subscribes decides.
  union
  select
    orphaned.cluster as message_cluster,
    orphaned.msg_id as message_key
  from {{ published('orphaned_messages') }} as orphaned
  inner join {{ working_table('int_context_changes') }} as changes
    on
      changes.kind = 'subscription'
      and orphaned.cluster = changes.cluster
      and orphaned.topic = changes.topic
      and orphaned.published_at between changes.changed_from and changes.changed_to
  where
    orphaned.expected_group is null and orphaned.cause in ('no_traced_group', 'untraced_consumer')
    and orphaned.hour >= timestamp '{{ kinds['subscription'] }}' and {{ is_retained('orphaned.hour') }}
{% endif %}
{% if 'progress' in kinds %}
  union
  select
    orphaned.cluster as message_cluster,
    orphaned.msg_id as message_key
  from {{ published('orphaned_messages') }} as orphaned
  inner join {{ working_table('int_context_changes') }} as changes
    on
      changes.kind = 'progress'
      and orphaned.cluster = changes.cluster
      and orphaned.topic = changes.topic
      and orphaned.expected_group = changes.consumer_group
      and least(orphaned.published_at, orphaned.due_at) - {{ limit('grace') }} <= changes.changed_to
      and greatest(orphaned.published_at, orphaned.due_at, orphaned.broker_due_at) + {{ limit('grace') }} >= changes.changed_from
  where
    (
      orphaned.published_at >= timestamp '{{ kinds['progress'] }}' - {{ limit('grace') }}
      or orphaned.due_at >= timestamp '{{ kinds['progress'] }}' - {{ limit('grace') }}
      or orphaned.broker_due_at >= timestamp '{{ kinds['progress'] }}' - {{ limit('grace') }}
    )
    and {{ is_retained('orphaned.hour') }}
{% endif %}
{% if 'backlog' in kinds %}
  union
  select
    orphaned.cluster as message_cluster,
    orphaned.msg_id as message_key
  from {{ published('orphaned_messages') }} as orphaned
  inner join {{ working_table('int_context_changes') }} as changes
    on
      changes.kind = 'backlog'
      and orphaned.cluster = changes.cluster
      and orphaned.topic = changes.topic
      and orphaned.expected_group = changes.consumer_group
      and orphaned.hour between changes.changed_from and changes.changed_to
  where
    orphaned.cause in ('in_backlog', 'backlog_overdue')
    and orphaned.hour >= timestamp '{{ kinds['backlog'] }}' and {{ is_retained('orphaned.hour') }}
{% endif %}
{% if 'check' in kinds %}
  union
  select
    orphaned.cluster as message_cluster,
    orphaned.msg_id as message_key
  from {{ published('orphaned_messages') }} as orphaned
  inner join {{ working_table('int_context_changes') }} as changes
    on
      changes.kind = 'check'
      and orphaned.cluster = changes.cluster
      and orphaned.topic = changes.topic
      and orphaned.msg_id = changes.msg_id
      and orphaned.expected_group = changes.consumer_group
  where orphaned.hour >= timestamp '{{ kinds['check'] }}' and {{ is_retained('orphaned.hour') }}
  -- Where no group is expected, a look-up for any group decides.
  union
  select
    orphaned.cluster as message_cluster,
    orphaned.msg_id as message_key
  from {{ published('orphaned_messages') }} as orphaned
  inner join {{ working_table('int_context_changes') }} as changes
    on
      changes.kind = 'check'
      and orphaned.cluster = changes.cluster
      and orphaned.topic = changes.topic
      and orphaned.msg_id = changes.msg_id
  where
    orphaned.expected_group is null and orphaned.cause in ('no_traced_group', 'untraced_consumer')
    and orphaned.hour >= timestamp '{{ kinds['check'] }}' and {{ is_retained('orphaned.hour') }}
  union
  -- The clock of a consumer may be behind by the limit from which a time is suspect.
  select
    deliveries.cluster as message_cluster,
    deliveries.msg_id as message_key
  from {{ published('fct_deliveries') }} as deliveries
  inner join {{ working_table('int_context_changes') }} as changes
    on
      changes.kind = 'check'
      and deliveries.cluster = changes.cluster
      and deliveries.topic = changes.topic
      and deliveries.msg_id = changes.msg_id
      and deliveries.consumer_group = changes.consumer_group
  where
    deliveries.hour >= timestamp '{{ kinds['check'] }}' - interval '7' day
    and deliveries.outcome != 'succeeded'
    and {{ is_retained('deliveries.hour') }} and {{ is_retained('deliveries.published_at') }}
{% endif %}
{% if 'dead_letter' in kinds %}
  -- Of a group that is not expected, and traced no attempt.
  union
  select
    messages.cluster as message_cluster,
    messages.msg_id as message_key
  from {{ published('fct_messages') }} as messages
  inner join {{ working_table('int_context_changes') }} as changes
    on
      changes.kind = 'dead_letter'
      and messages.cluster = changes.cluster
      and messages.topic = changes.topic
      and messages.msg_id = changes.msg_id
  where
    messages.is_published and messages.hour >= timestamp '{{ kinds['dead_letter'] }}'
    and {{ is_retained('messages.hour') }}
{% endif %}
{% if 'incomplete' in kinds %}
  union
  select
    orphaned.cluster as message_cluster,
    orphaned.msg_id as message_key
  from {{ published('orphaned_messages') }} as orphaned
  inner join {{ working_table('int_context_changes') }} as changes
    on
      changes.kind = 'incomplete'
      and orphaned.cluster = changes.cluster
      and orphaned.topic = changes.topic
      and orphaned.expected_group = changes.consumer_group
      and orphaned.hour = changes.changed_from
  where
    orphaned.checked_at is not null
    and orphaned.hour >= timestamp '{{ kinds['incomplete'] }}' and {{ is_retained('orphaned.hour') }}
{% endif %}

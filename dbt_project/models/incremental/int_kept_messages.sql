-- One row per message whose published rows a full refresh keeps, because retention has dropped records of it from events. Only
-- messages matter that still have records in events, or rows in an hour that the run replaces.
{{ config(only_in='refresh_after_retention') }}

-- int_message_hours knows messages by a hash, which two messages may share; so only messages with published rows are kept.
with dropped as (
  select distinct
    hash_high,
    hash_low
  from {{ published('int_message_hours') }}
  where not {{ is_retained('hour') }}
),

published_messages as (
  {% for fact, message_key in [
    ('fct_sends', message_key_of_send()), ('fct_consume_attempts', message_key_of_attempt()), ('fct_transactions', 'msg_id')
  ] %}
    select
      cluster as message_cluster,
      {{ message_key }} as message_key,
      {{ hour_is_in('affected') }} as is_replaced
    from {{ published(fact) }}
    {{ 'union all' if not loop.last }}
  {% endfor %}
),

concerned as (
  select
    message_cluster,
    message_key
  from published_messages
  where is_replaced
  union
  (
    select
      message_cluster,
      message_key
    from published_messages
    intersect
    select
      cluster as message_cluster,
      message_key
    from {{ ref('stg_record_messages') }}
    where change_seq <= {{ change_seq_to() }}
  )
)

select
  concerned.message_cluster,
  concerned.message_key
from (
  select
    *,
    {{ message_key_hash('message_cluster') }}
  from concerned
) as concerned
left semi join dropped using (hash_high, hash_low)

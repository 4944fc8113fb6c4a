-- One row per message whose published rows a full refresh keeps, as retention has dropped records of it from events:
-- (life_cluster, life), of messages that have other records there, or rows in an hour that the run replaces.
{{ config(materialized='working_table', schema='changes', enabled=is_keeping_refresh()) }}

-- By the hash of the id: it may meet another's, so only messages with published rows count.
with dropped as (
  select distinct
    hash_high,
    hash_low
  from {{ published('int_message_hours') }}
  where not {{ has_its_records('hour') }}
),

published_messages as (
  {% for fact, life in [
    ('fct_sends', life_of_send()), ('fct_consume_attempts', life_of_attempt()), ('fct_transactions', 'msg_id')
  ] %}
    select
      cluster as life_cluster,
      {{ life }} as life,
      {{ hour_is_of('affected') }} as is_replaced
    from {{ published(fact) }}
    {{ 'union all' if not loop.last }}
  {% endfor %}
),

concerned as (
  select
    life_cluster,
    life
  from published_messages
  where is_replaced
  union
  (
    select
      life_cluster,
      life
    from published_messages
    intersect
    select
      cluster as life_cluster,
      life
    from {{ ref('stg_record_messages') }}
    where change_seq <= {{ change_seq_to() }}
  )
)

select
  concerned.life_cluster,
  concerned.life
from (
  select
    *,
    {{ life_hash('life_cluster') }}
  from concerned
) as concerned
left semi join dropped using (hash_high, hash_low)

-- One row per hour in which affected messages have records or rows, or in which Invalid records were added or replaced, or of
-- which orphan_rate judges more messages than before.
{{ config(only_in='incremental_run', post_hook="{{ save_hours('affected') }}") }}
-- depends_on: {{ ref('int_affected_messages') }}

select hour from {{ working_table('int_changed_hours') }}
union
select hour from {{ working_table('int_known_hours') }}
{%- set before = watermarks_before() %}
{% for cluster, watermark in var('watermarks').items() if cluster in before %}
  union
  select hour from {{ published('fct_messages') }}
  where
    cluster = '{{ cluster }}'
    and due_at > timestamp '{{ before[cluster] }}' - {{ limit('grace') }}
    and due_at <= timestamp '{{ watermark }}' - {{ limit('grace') }}
{% endfor %}
{% if context_changes() %}
  union
  select known.hour
  from {{ hours_of_days(['int_affected_messages']) }} as known
  left semi join (
    select
      {{ message_key_day() }} as key_day,
      {{ message_key_hash('message_cluster') }}
    from {{ working_table('int_affected_messages') }}
  ) as affected
    on known.key_day = affected.key_day and known.hash_high = affected.hash_high and known.hash_low = affected.hash_low
{% endif %}

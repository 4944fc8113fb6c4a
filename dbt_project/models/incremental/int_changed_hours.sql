-- One row per hour in which changed messages have records or rows, or in which Invalid records were added or replaced.
{{ config(only_in='incremental_run', post_hook="{{ save_hours('changed') }}") }}

select hour from {{ working_table('int_known_hours') }}
where is_changed
{% for changes in ['stg_record_messages', 'stg_replaced_records'] %}
  union
  select explode(array(hour, stored_hour)) as hour from {{ ref(changes) }}
  where {{ is_new_record() }}
{% endfor %}
union
select hour from {{ ref('stg_invalid_records') }}
where {{ is_new_record() }}

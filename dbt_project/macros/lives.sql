{# What no record of another message can change is the life of a message: its id. Records without an id that could
   nevertheless belong together share a life of another name: sends of one time, begin and end of one call. #}

{% macro life_of_send() -%}
  coalesce(msg_id, concat('sent at ', unix_millis(event_time)), '')
{%- endmacro %}

{% macro life_of_attempt() -%}
  coalesce(msg_id, concat('call ', request_id), '')
{%- endmacro %}

{# Forty bits of a life, in two numbers that are small in a file: of a million lives, one in a million meets another. #}
{% macro life_hash(cluster='cluster', life='life') -%}
  cast(shiftright(xxhash64({{ cluster }}, {{ life }}), 24) & 65535 as int) as hash_high,
  cast(xxhash64({{ cluster }}, {{ life }}) & 16777215 as int) as hash_low
{%- endmacro %}

{# Of a row with record_type, msg_id, event_time and request_id. #}
{% macro life_of_record() -%}
  case when record_type in ('SubBefore', 'SubAfter') then {{ life_of_attempt() }} else {{ life_of_send() }} end
{%- endmacro %}

{# The message key: records with different keys never affect each other's rows. It is the message id; records without an id that
   may belong together share a key of another form: sends of the same time, the begin and end of one call. #}

{% macro message_key_of_send() -%}
  coalesce(msg_id, concat('sent at ', unix_millis(event_time)), '')
{%- endmacro %}

{% macro message_key_of_attempt() -%}
  coalesce(msg_id, concat('call ', request_id), '')
{%- endmacro %}

{# Of a row with record_type, msg_id, event_time and request_id. #}
{% macro message_key_of_record() -%}
  case
    when record_type in ('SubBefore', 'SubAfter') then {{ message_key_of_attempt() }}
    else {{ message_key_of_send() }}
  end
{%- endmacro %}

{# A 40-bit hash of the message key, as two small integers, which Parquet compresses well. Of a million keys, about one shares its
   hash with another. #}
{% macro message_key_hash(cluster='cluster', message_key='message_key') -%}
  cast(shiftright(xxhash64({{ cluster }}, {{ message_key }}), 24) & 65535 as int) as hash_high,
  cast(xxhash64({{ cluster }}, {{ message_key }}) & 16777215 as int) as hash_low
{%- endmacro %}

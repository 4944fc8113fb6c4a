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

{# The day in the id of a message: a number that messages of one time share, and that all records of a message have, as they have the
   same key. Ids of remoting clients have the milliseconds since the start of the month in which the client made them
   (MessageClientIDSetter: 4 bytes after address, process id and class loader); of Go the seconds, after a class loader of zeros; of
   librocketmq the milliseconds, least significant byte first, after a process id of zeros. Ids of gRPC clients have the seconds since
   2021. 63: the key has no such time. #}
{% macro message_key_day(message_key='message_key') -%}
  {%- set time = 'substr(' ~ message_key ~ ', 21, 8)' -%}
  {%- set bytes_reversed -%}
    concat(
      substr({{ message_key }}, 27, 2), substr({{ message_key }}, 25, 2), substr({{ message_key }}, 23, 2), substr({{ message_key }}, 21, 2)
    )
  {%- endset -%}
  case
    when length({{ message_key }}) = 32
      then
        case
          when substr({{ message_key }}, 13, 8) = '00000000' then pmod({{ days_in(time, 86400) }}, 63)
          when substr({{ message_key }}, 9, 4) = '0000' and substr({{ message_key }}, 17, 4) = '0000'
            then {{ days_in(bytes_reversed, 86400000) }}
          else {{ days_in(time, 86400000) }}
        end
    when length({{ message_key }}) = 56 then {{ days_in('substr(' ~ message_key ~ ', 45, 8)', 86400000) }}
    when length({{ message_key }}) = 34 and {{ message_key }} like '01%'
      then pmod({{ days_in('substr(' ~ message_key ~ ', 19, 8)', 86400) }}, 32)
    else 63
  end
{%- endmacro %}

{# Days in a number of 8 hexadecimal digits; of other texts any number of days, always the same one. #}
{% macro days_in(digits, units_of_a_day) -%}
  cast(coalesce(cast(conv({{ digits }}, 16, 10) as bigint), 0) div {{ units_of_a_day }} as int)
{%- endmacro %}

{# What is common to the columns of all record types. #}

{# Text that stands for "absent" on the wire, to NULL. #}
{% macro present(column) -%}
  case when {{ column }} not in ('null', '') then {{ column }} end
{%- endmacro %}

{# The keys of a consumer record. Absent ones are `null` or empty; librocketmq (C++, Python), whose layouts are these,
   writes dKey. In any other layout that is a key. #}
{% macro consumer_keys() -%}
  case
    when not (layout in ('sub_before_8', 'sub_after_6') and keys = 'dKey') then {{ present('keys') }}
  end
{%- endmacro %}

{# A group or topic without RocketMQ's %RETRY% and %DLQ% and without a namespace (`ns%name`). #}
{% macro without_prefixes(column) -%}
  regexp_replace({{ present(column) }}, '^(%RETRY%|%DLQ%)?([^%]+%)?', '')
{%- endmacro %}

{# What a topic is for: retry and dead_letter topics hold messages that were published before. #}
{% macro topic_kind(column) -%}
  case
    when {{ column }} like '\\%RETRY\\%%' then 'retry'
    when {{ column }} like '\\%DLQ\\%%' then 'dead_letter'
    else 'normal'
  end
{%- endmacro %}

{# Whether the Go client made this id, of a message or of a call: address and process number, zeros where Java has its class
   loader's hash and the others a random number, then a count of seconds in lower case (CreateUniqID in primitive/message.go). #}
{% macro is_id_of_go(id) -%}
  coalesce({{ id }} rlike '^[0-9A-F]{12}0{8}[0-9a-f]{12}(,|$)', false)
{%- endmacro %}

{# The ids of a Pub's messages, a comma list: the client's; of a message without one the broker's, which consumers know it by. #}
{% macro sent_msg_ids() -%}
  coalesce({{ present('msg_id') }}, {{ present('offset_msg_id') }})
{%- endmacro %}

{# The ids that a record names, as an array; of one row of any record type. #}
{% macro named_msg_ids() -%}
  case
    when record_type = 'Pub' then filter(split({{ sent_msg_ids() }}, ','), id -> id != '')
    else array({{ present('msg_id') }})
  end
{%- endmacro %}

{# When the send began that a Pub tells of, by the client: Go writes the time after it (producer/interceptor.go), and
   gives the messages of a batch no ids (producer/producer.go). #}
{% macro send_time() -%}
  case
    when ({{ is_id_of_go('msg_id') }} or (msg_id = '' and offset_msg_id like '%,%')) and cost_ms between 0 and 86400000
      then timestamp_millis(unix_millis(event_time) - cast(cost_ms as bigint))
    else event_time
  end
{%- endmacro %}

{# When what a record of any type tells of began, by the client. #}
{% macro told_time() -%}
  case when record_type = 'Pub' then {{ send_time() }} else event_time end
{%- endmacro %}

{# The record's time: the client's, or the broker's where the client's is missing or suspect. #}
{% macro record_time(client_time='event_time') -%}
  case when not coalesce(event_time_suspect, false) then coalesce({{ client_time }}, store_time) else store_time end
{%- endmacro %}

{% macro record_time_source() -%}
  case when event_time is not null and not coalesce(event_time_suspect, false) then 'event_time' else 'store_time' end
{%- endmacro %}

{# The client process: its own `ip@pid`, else the address it wrote the trace from, else its ip. #}
{% macro client() -%}
  case when client_host like '%@%' then client_host else coalesce(born_host, client_host) end
{%- endmacro %}

{# Where the record stands; the first in this order is kept of records that were stored twice. #}
{% macro place() -%}
  struct(store_time, trace_topic, broker, queue_id, epoch, queue_offset, record_index)
{%- endmacro %}

{# The machine of a client: its address without process number or port, which may differ between two records of one process. #}
{% macro client_host(client) -%}
  translate(
    case
      when {{ client }} like '%@%' then substring_index({{ client }}, '@', 1)
      else regexp_replace({{ client }}, ':[0-9]+$', '')
    end,
    '[]',
    ''
  )
{%- endmacro %}

{# The client library that a layout alone tells; NULL for the layouts that several libraries write. #}
{% macro client_family(layout) -%}
  case
    when {{ layout }} in ('pub_15_rmqsdk', 'sub_after_10_rmqsdk') then 'rocketmq-enhance-client'
    when {{ layout }} in ('pub_8_newlife', 'sub_before_8_newlife', 'sub_after_8_newlife') then 'NewLife.RocketMQ'
    when {{ layout }} = 'sub_after_8_ons' then 'rocketmq-ons'
  end
{%- endmacro %}

{# Aggregate: the union of arrays, sorted. #}
{% macro union_of(arrays) -%}
  array_sort(array_distinct(flatten(collect_list({{ arrays }}))))
{%- endmacro %}

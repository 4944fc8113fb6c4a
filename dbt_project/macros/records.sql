{# Expressions on the columns of events.trace_records, which the staging models share. #}

{# A text column, NULL where the client wrote `null` or nothing. #}
{% macro null_if_absent(column) -%}
  case when {{ column }} not in ('null', '') then {{ column }} end
{%- endmacro %}

{# The keys of a consumer record. For absent keys, librocketmq (C++, Python) writes `dKey` in its two layouts; in any other layout
   `dKey` is a key. #}
{% macro consumer_keys() -%}
  case
    when not (layout in ('sub_before_8', 'sub_after_6') and keys = 'dKey') then {{ null_if_absent('keys') }}
  end
{%- endmacro %}

{# A group or topic without the prefixes %RETRY% and %DLQ% and without the namespace (`ns%name`). #}
{% macro without_prefixes(column) -%}
  regexp_replace({{ null_if_absent(column) }}, '^(%RETRY%|%DLQ%)?([^%]+%)?', '')
{%- endmacro %}

{# The kind of a topic. Messages in retry and dead-letter topics were published to a normal topic before. #}
{% macro topic_kind(column) -%}
  case
    when {{ column }} like '\\%RETRY\\%%' then 'retry'
    when {{ column }} like '\\%DLQ\\%%' then 'dead_letter'
    else 'normal'
  end
{%- endmacro %}

{# A condition: the Go client generated this id of a message or call. It consists of address and process number, zeros (the Java
   client has the hash of its class loader there, other clients a random number), then seconds and a counter in lower-case hex
   (CreateUniqID in primitive/message.go). #}
{% macro is_id_of_go(id) -%}
  coalesce({{ id }} rlike '^[0-9A-F]{12}0{8}[0-9a-f]{12}(,|$)', false)
{%- endmacro %}

{# The message ids of a Pub, separated by commas. Without ids of the client, the broker's ids, which consumers then report. #}
{% macro sent_msg_ids() -%}
  coalesce({{ null_if_absent('msg_id') }}, {{ null_if_absent('offset_msg_id') }})
{%- endmacro %}

{# A condition: the ids of a Pub are those of a batch. A program may set an id that contains commas. The list of a batch has as
   many ids as the broker's list, or only ids that clients generate. #}
{% macro is_batch() -%}
  coalesce({{ sent_msg_ids() }} like '%,%' and (
    cardinality(filter(split({{ sent_msg_ids() }}, ','), id -> id != '')) = cardinality(filter(split(offset_msg_id, ','), id -> id != ''))
    or {{ sent_msg_ids() }} rlike '^[0-9A-Fa-f]{32}(,[0-9A-Fa-f]{32})+,?$'
  ), false)
{%- endmacro %}

{# The ids in a list with commas, if it is that of a batch; else the id, as an array. #}
{% macro msg_id_list(msg_ids, is_batch) -%}
  case when {{ is_batch }} then filter(split({{ msg_ids }}, ','), id -> id != '') else array_compact(array({{ msg_ids }})) end
{%- endmacro %}

{# The message ids of a record of any type, as an array. #}
{% macro named_msg_ids() -%}
  case
    when record_type = 'Pub' then {{ msg_id_list(sent_msg_ids(), is_batch()) }}
    else array({{ null_if_absent('msg_id') }})
  end
{%- endmacro %}

{# When the send of a Pub began, by the client's clock. The Go client writes the time at which the send ended
   (producer/interceptor.go), and assigns no ids to the messages of a batch (producer/producer.go). #}
{% macro send_time() -%}
  case
    when ({{ is_id_of_go('msg_id') }} or (msg_id = '' and offset_msg_id like '%,%')) and cost_ms between 0 and 86400000
      then timestamp_millis(unix_millis(event_time) - cast(cost_ms as bigint))
    else event_time
  end
{%- endmacro %}

{# When the operation of a record of any type began, by the client's clock. #}
{% macro operation_time() -%}
  case when record_type = 'Pub' then {{ send_time() }} else event_time end
{%- endmacro %}

{# The time of a record: by the client's clock, or the broker's store time where the former is missing or suspect. #}
{% macro record_time(client_time='event_time') -%}
  case when not coalesce(event_time_suspect, false) then coalesce({{ client_time }}, store_time) else store_time end
{%- endmacro %}

{% macro record_time_source() -%}
  case when event_time is not null and not coalesce(event_time_suspect, false) then 'event_time' else 'store_time' end
{%- endmacro %}

{# The client process: `ip@pid` if the client wrote it, else the address from which it sent the trace, else its ip. #}
{% macro client() -%}
  case when client_host like '%@%' then client_host else coalesce(born_host, client_host) end
{%- endmacro %}

{# The position of a record in the trace topic. Of a record that was stored twice, the first in this order is kept. #}
{% macro record_position() -%}
  struct(store_time, trace_topic, broker, queue_id, epoch, queue_offset, record_index)
{%- endmacro %}

{# The host of a client: its address without process number or port, as two records of one process may differ in these. #}
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

{# The client library that writes a layout; NULL if several libraries write it. #}
{% macro client_family(layout) -%}
  case
    when {{ layout }} in ('pub_15_rmqsdk', 'sub_after_10_rmqsdk') then 'rocketmq-enhance-client'
    when {{ layout }} in ('pub_8_newlife', 'sub_before_8_newlife', 'sub_after_8_newlife') then 'NewLife.RocketMQ'
    when {{ layout }} = 'sub_after_8_ons' then 'rocketmq-ons'
  end
{%- endmacro %}

{# Aggregate: the sorted union of arrays. #}
{% macro sorted_union(arrays) -%}
  array_sort(array_distinct(flatten(collect_list({{ arrays }}))))
{%- endmacro %}

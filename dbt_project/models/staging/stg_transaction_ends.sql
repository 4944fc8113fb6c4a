-- One row an EndTransaction record: the producer is about to tell the broker what becomes of a half message.
with source as (
  select * from {{ source('events', 'trace_records') }}
  where record_type = 'EndTransaction'
),

renamed as (
  select
    cluster,
    {{ place() }} as place,
    store_time,
    event_time,
    {{ record_time() }} as decided_at,
    {{ record_time_source() }} as hour_source,
    date_trunc('hour', {{ record_time() }}) as hour,
    {{ present('region') }} as region,
    {{ without_prefixes('group_name') }} as producer_group,
    {{ without_prefixes('topic') }} as topic,
    {{ present('msg_id') }} as msg_id,
    {{ present('tags') }} as tags,
    {{ present('keys') }} as keys,
    {{ present('store_host') }} as store_host,
    {{ present('transaction_id') }} as transaction_id,
    case transaction_state
      when 'COMMIT_MESSAGE' then 'commit'
      when 'ROLLBACK_MESSAGE' then 'rollback'
      when 'UNKNOW' then 'unknown'
      else transaction_state
    end as transaction_state,
    from_transaction_check as is_answer_to_check,
    {{ client() }} as client,
    layout,
    change_seq
  from source
)

select * from renamed

-- One row per EndTransaction record: a producer's decision on a half message.
with source as (
  select * from {{ source('events', 'trace_records') }}
  where record_type = 'EndTransaction'
),

renamed as (
  select
    cluster,
    {{ record_position() }} as record_position,
    store_time,
    event_time,
    {{ record_time() }} as decided_at,
    {{ record_time_source() }} as hour_source,
    date_trunc('hour', {{ record_time() }}) as hour,
    {{ null_if_absent('region') }} as region,
    {{ without_prefixes('group_name') }} as producer_group,
    {{ without_prefixes('topic') }} as topic,
    {{ null_if_absent('msg_id') }} as msg_id,
    {{ null_if_absent('tags') }} as tags,
    {{ null_if_absent('keys') }} as keys,
    {{ null_if_absent('store_host') }} as store_host,
    {{ null_if_absent('transaction_id') }} as transaction_id,
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

-- One row per message of a Pub record: a batch has one row per message id.
with pubs as (
  select
    *,
    {{ msg_id_list('msg_ids', 'is_batch') }} as msg_id_list,
    split(offset_msg_ids, ',') as offset_msg_id_list
  from {{ ref('stg_pubs') }}
  where change_seq <= {{ change_seq_to() }} and {{ is_stored_in_hours_of('changed') }}
),

messages as (
  select
    pubs.*,
    in_batch.msg_id,
    get(pubs.offset_msg_id_list, coalesce(in_batch.batch_index, 0)) as offset_msg_id,
    coalesce(in_batch.batch_index, 0) as batch_index,
    greatest(coalesce(cardinality(pubs.msg_id_list), 1), 1) as batch_size,
    case when cardinality(pubs.msg_id_list) > 1 then pubs.msg_id_list[0] end as batch_id
  from pubs
    lateral view outer posexplode(pubs.msg_id_list) in_batch as batch_index, msg_id
)

select * from messages
where {{ is_message_of('changed', message_key_of_send()) }}

-- One row per identifier and hour in which records with it exist: (identifier_hash, hour). The look-up of a message reads only
-- the files of these hours; of the index itself it opens one bucket, and decodes one small row group of each day. An identifier
-- is a message id, a broker's id, a transaction id or a user key.
{{ config(
  materialized='audited_table',
  contract={'enforced': true},
  partition_by=['days(hour)', 'bucket(8, identifier_hash)'],
  sorted_by='identifier_hash',
  row_group_bytes=131072,
  replaces='nothing' if var('change_seq_from') is not none else none
) }}
with identifiers as (
  select
    cluster,
    identifier,
    explode(array(hour, stored_hour)) as hour
  from {{ ref('stg_record_identifiers') }}
  where {% if is_incremental_run() %}{{ is_new_record() }}{% else %}change_seq <= {{ change_seq_to() }}{% endif %}
  {% if is_refresh_after_retention() %}
    -- The rows of the facts whose records retention has dropped from events. They have no transaction ids.
    union all
    select
      cluster,
      explode(array_compact(concat(array(msg_id, offset_msg_id), coalesce(split(keys, ' '), array())))) as identifier,
      hour
    from {{ ref('fct_sends') }}
    union all
    select
      cluster,
      explode(array_compact(concat(array(msg_id), coalesce(split(keys, ' '), array())))) as identifier,
      hour
    from {{ ref('fct_consume_attempts') }}
    union all
    select
      cluster,
      msg_id as identifier,
      hour
    from {{ ref('fct_transactions') }}
  {% endif %}
),

hours as (
  select distinct
    xxhash64(cluster, identifier) as identifier_hash,
    hour
  from identifiers
  where identifier != ''
)

select
  hours.identifier_hash,
  hours.hour
from hours
{% if is_incremental_run() %}
  left anti join {{ rows_in_hours_of('changed', published('int_identifier_hours')) }} as known
    on hours.identifier_hash = known.identifier_hash and hours.hour = known.hour
{% endif %}

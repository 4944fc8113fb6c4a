-- One row per identifier and hour in which records with it exist: (identifier_hash, hour). The look-up of a message reads only the
-- files of these hours. An identifier is a message id, a broker's id, a transaction id or a user key.
{{ config(
  materialized='audited_table',
  contract={'enforced': true},
  partition_by='days(hour)',
  sorted_by='identifier_hash',
  row_group_bytes=1048576,
  replaces='nothing'
) }}
with hours as (
  select distinct
    xxhash64(cluster, identifier) as identifier_hash,
    explode(array(hour, stored_hour)) as hour
  from {{ ref('stg_record_identifiers') }}
  where {% if is_incremental_run() %}{{ is_new_record() }}{% else %}change_seq <= {{ change_seq_to() }}{% endif %}
)

select
  hours.identifier_hash,
  hours.hour
from hours
{% if is_incremental_run() %}
  left anti join (select * from {{ published('int_identifier_hours') }} where {{ hour_is_in('changed') }}) as known
    on hours.identifier_hash = known.identifier_hash and hours.hour = known.hour
{% elif replaces_some_rows() %}
  left anti join {{ published('int_identifier_hours') }} as known
    on hours.identifier_hash = known.identifier_hash and hours.hour = known.hour
{% endif %}

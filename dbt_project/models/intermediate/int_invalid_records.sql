-- One row per record of this run that matches no known layout.
select
  *,
  split_part(invalid_reason, ':', 1) as reason_class
from {{ ref('stg_invalid_records') }}
where change_seq <= {{ change_seq_to() }} and {{ is_stored_in_hours_of('affected') }}

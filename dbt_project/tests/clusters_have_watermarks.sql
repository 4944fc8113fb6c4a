-- Fails with a cluster that has sends or attempts but no watermark: nothing of it could ever be judged.
select cluster
from (
  select cluster from {{ in_hours_of('affected', ref('fct_sends')) }}
  union
  select cluster from {{ in_hours_of('affected', ref('fct_consume_attempts')) }}
)
left anti join {{ ref('int_watermarks') }} using (cluster)

-- Fails for each cluster that has sends or attempts but no watermark: without one, none of its rows can be judged.
select cluster
from (
  select cluster from {{ rows_in_hours_of('affected', ref('fct_sends')) }}
  union
  select cluster from {{ rows_in_hours_of('affected', ref('fct_consume_attempts')) }}
)
left anti join {{ ref('int_watermarks') }} using (cluster)

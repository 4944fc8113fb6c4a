-- Fails if trace_volume does not count exactly the records that were stored in the hours that the run has written.
with sums as (
  select
    (
      select coalesce(sum(records), 0) from {{ rows_in_hours_of('affected', ref('trace_volume')) }}
      where {{ is_retained('hour') }}
    ) as in_mart,
    (
      select count(*) from {{ ref('stg_trace_records') }}
      where
        change_seq <= {{ change_seq_to() }}
        and store_time is not null
        and {{ is_retained('hour') }}
        and {{ is_stored_in_hours_of('affected') }}
    ) as in_events
)

select * from sums
where in_mart != in_events

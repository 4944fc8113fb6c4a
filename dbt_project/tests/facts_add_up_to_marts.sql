-- Fails if a mart does not count exactly the rows of its fact, in the hours that the run has written.
with sums as (
  select
    'consumer_group_success' as mart,
    (select coalesce(sum(attempts), 0) from {{ rows_in_hours_of('affected', ref('consumer_group_success')) }}) as in_mart,
    (
      select count(*) from {{ rows_in_hours_of('affected', ref('fct_consume_attempts')) }}
      where consumer_group is not null
    ) as in_fact
  union all
  select
    'consumer_group_success deliveries' as mart,
    (select coalesce(sum(deliveries), 0) from {{ rows_in_hours_of('affected', ref('consumer_group_success')) }}) as in_mart,
    (select count(*) from {{ rows_in_hours_of('affected', ref('fct_deliveries')) }}) as in_fact
  union all
  select
    'consume_latency' as mart,
    (select coalesce(sum(attempts_with_end), 0) from {{ rows_in_hours_of('affected', ref('consume_latency')) }}) as in_mart,
    (
      select count(*) from {{ rows_in_hours_of('affected', ref('fct_consume_attempts')) }}
      where consumer_group is not null and has_end
    ) as in_fact
  {% for mart in ['queue_wait', 'end_to_end_latency'] %}
    union all
    select
      '{{ mart }}' as mart,
      (select coalesce(sum(deliveries), 0) from {{ rows_in_hours_of('affected', ref(mart)) }}) as in_mart,
      (select count(*) from {{ rows_in_hours_of('affected', ref('fct_deliveries')) }}) as in_fact
  {% endfor %}
  {% for mart in ['retries', 'duplicates'] %}
    union all
    select
      '{{ mart }}' as mart,
      (select coalesce(sum(deliveries), 0) from {{ rows_in_hours_of('affected', ref(mart)) }}) as in_mart,
      (
        select count(*) from {{ rows_in_hours_of('affected', ref('fct_deliveries')) }}
        where not is_broadcast
      ) as in_fact
  {% endfor %}
  union all
  select
    'clock_skew' as mart,
    (select coalesce(sum(records), 0) from {{ rows_in_hours_of('affected', ref('clock_skew')) }}) as in_mart,
    (select count(*) from {{ rows_in_hours_of('affected', ref('fct_sends')) }})
    + (
      select count(*) from {{ rows_in_hours_of('affected', ref('fct_consume_attempts')) }}
      where has_begin
    ) as in_fact
  union all
  select
    'send_latency' as mart,
    (select coalesce(sum(sends), 0) from {{ rows_in_hours_of('affected', ref('send_latency')) }}) as in_mart,
    (select count(*) from {{ rows_in_hours_of('affected', ref('fct_sends')) }}) as in_fact
)

select * from sums
where in_mart != in_fact

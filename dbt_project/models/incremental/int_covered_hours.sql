-- One row per hour whose trace coverage is computed again: hours of affected messages, hours in which they arrived in their topic
-- before or now, and hours that end after the broker facts, or that become due after the watermark, of the published coverage.
{{ config(only_in='incremental_run', post_hook="{{ save_hours('covered') }}") }}

with asked as (
  select
    cluster,
    min(observed_at) as first_observed_at
  from {{ ref('stg_broker_observations') }}
  group by cluster
),

inputs as (
  select
    inputs.as_of,
    inputs.watermark,
    coalesce(inputs_before.as_of, asked.first_observed_at) as as_of_before,
    inputs_before.as_of <=> inputs.as_of as is_same_as_of,
    inputs_before.watermark - {{ limit('grace') }} - interval '1' hour as watermark_before
  from {{ ref('int_coverage_inputs') }} as inputs
  left join {{ published('int_coverage_inputs') }} as inputs_before
    on inputs.cluster = inputs_before.cluster
  left join asked
    on inputs.cluster = asked.cluster
),

ranges as (
  select
    as_of_before as changed_from,
    as_of + {{ limit('offsets_lag') }} as changed_to
  from inputs
  where not is_same_as_of
  union all
  select
    watermark_before as changed_from,
    watermark as changed_to
  from inputs
)

select hour from {{ working_table('int_affected_hours') }}
union
select arrived_hour as hour from {{ published('int_message_arrivals') }}
where {{ hour_is_in('affected') }}
union
select arrived_hour as hour from {{ ref('int_message_arrivals') }}
where {{ hour_is_in('affected') }}
union
select explode(sequence(date_trunc('hour', changed_from), date_trunc('hour', changed_to), interval '1' hour)) as hour
from ranges
where changed_from <= changed_to

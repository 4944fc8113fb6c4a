-- Warns about clients whose records have a type or a number of fields that no known layout has.
{{ config(severity='warn', meta={'tier': 'messaging', 'runbook': 'docs/runbooks/dbt_warnings.md'}) }}

select
  cluster,
  client,
  reason,
  sum(records) as records
from {{ rows_in_hours_of('affected', ref('invalid_records')) }}
where is_unknown_layout
group by cluster, client, reason

-- One row per trace topic that is read: (cluster, topic). Its messages are no traffic of applications.
{%- set rows = [] %}
{%- for cluster, topics in var('trace_topics').items() %}
  {%- for topic in topics %}{% do rows.append("('" ~ cluster ~ "', '" ~ topic ~ "')") %}{% endfor %}
{%- endfor %}
select
  cluster,
  topic
from
  values {{ rows | join(', ') or '(cast(null as string), cast(null as string))' }}
    as trace_topics (cluster, topic)
where cluster is not null

{# Which rows a run reads and writes; docs/incremental.md describes the runs.

   An incremental run computes the messages that the records of one interval of change_seq affect. It has two sets of messages:
   - changed: messages with a new record, a replaced record, or an attempt whose outcome the watermark decides;
   - affected: the changed messages, other messages with a state that the watermark has passed, and those that depend on a changed
     context, such as an expected consumer group.
   Each set has its hours: the hours in which its messages have records or published rows.

   Without `change_seq_from` a run is a full refresh: it computes all messages. After retention has dropped records, a full refresh
   keeps the published rows that it can no longer compute: all rows of the hours before `kept_from`, and the rows of each message
   that has lost a record (int_kept_messages). Where nothing was dropped, the macros of this file add no condition. #}

{% macro is_incremental_run() -%}
  {{ return(var('change_seq_from') is not none) }}
{%- endmacro %}

{# Whether the run is a full refresh that keeps the published rows of records that retention has dropped. #}
{% macro is_refresh_after_retention() -%}
  {{ return(var('change_seq_from') is none and var('kept_from') is not none) }}
{%- endmacro %}

{# Whether the run replaces only some rows of a table. A full refresh without dropped records replaces all of them. #}
{% macro replaces_some_rows() -%}
  {{ return(is_incremental_run() or is_refresh_after_retention()) }}
{%- endmacro %}

{# Whether a macro may run queries. `dbt compile` and `dbt docs generate` run none, so they need no Spark session. #}
{% macro can_query() -%}
  {{ return(execute and flags.WHICH in ('build', 'run', 'test')) }}
{%- endmacro %}

{# A condition: the record belongs to the interval of an incremental run. #}
{% macro is_new_record() -%}
  change_seq > {{ var('change_seq_from') | int }} and change_seq <= {{ change_seq_to() }}
{%- endmacro %}

{# A relation: the rows of a table in the hours of the set. #}
{% macro rows_in_hours_of(set, relation) -%}
  {% if replaces_some_rows() %}(select * from {{ relation }} where {{ hour_is_in(set) }}){% else %}{{ relation }}{% endif %}
{%- endmacro %}

{# A relation: the rows of a table by hour on the days of the set. A full refresh computes all days from the hours, whatever
   retention has dropped: a table by hour keeps its rows. #}
{% macro rows_in_days_of(set, relation) -%}
  {% if is_incremental_run() %}(select * from {{ relation }} where {{ day_is_in(set) }}){% else %}{{ relation }}{% endif %}
{%- endmacro %}

{# A relation: the rows of a table that belong to messages of the set. `message_key` is the message key of a row
   (macros/message_keys.sql). #}
{% macro rows_of_messages(set, relation, message_key='msg_id') -%}
  {% if is_incremental_run() -%}
  (
    select all_rows.*
    from {{ relation }} as all_rows
      left semi join {{ working_table('int_' ~ set ~ '_messages') }} as messages_of_set
      on all_rows.cluster = messages_of_set.message_cluster and {{ message_key }} = messages_of_set.message_key
    where {{ hour_is_in(set) }}
  )
  {%- elif is_refresh_after_retention() -%}
  (select * from {{ relation }} where {{ hour_is_in(set) }} and {{ is_message_of(set, message_key) }})
  {%- else %}{{ relation }}{% endif %}
{%- endmacro %}

{# A relation: the published rows of int_message_hours that messages of these working tables can have. The days are literals, so Iceberg
   skips the partitions of all other days. #}
{% macro hours_of_days(tables) -%}
  {%- set days = [] -%}
  {%- for table in tables -%}
    {%- set name = working_table(table) -%}
    {%- if can_query() and is_incremental_run() -%}
      {%- do days.extend(run_query('select distinct ' ~ message_key_day() ~ ' from ' ~ name).columns[0].values()) -%}
    {%- endif -%}
  {%- endfor -%}
  (
    select * from {{ published('int_message_hours') }}
    where {% if days %}key_day in ({{ days | map('int') | unique | sort | join(', ') }}){% else %}false{% endif %}
  )
{%- endmacro %}

{# A query: the messages of the rows of a published table whose `next_review_at` the watermark has passed. #}
{% macro due_messages(table, message_key='msg_id') -%}
select
  due.cluster as message_cluster,
  {{ message_key }} as message_key
from {{ published(table) }} as due
inner join {{ ref('int_watermarks') }} as watermarks
  on due.cluster = watermarks.cluster
where due.next_review_at is not null and due.next_review_at <= watermarks.watermark
{%- endmacro %}

{# The rows that a data test checks: those in the hours or days that the run has written, or all rows of a model without either. #}
{% macro written_rows(model) -%}
  {% if is_incremental_run() %}{% do working_table('int_affected_hours') %}
  {%- elif is_refresh_after_retention() %}{% do working_table('int_late_hours') %}
  {%- endif -%}
  {% set columns = (graph.nodes.values() | selectattr('name', 'equalto', model.identifier) | first).columns if execute else {} -%}
  {% if 'hour' in columns -%}{{ rows_in_hours_of('affected', model) }}
  {%- elif 'day' in columns and is_incremental_run() -%}(select * from {{ model }} where {{ date_is_in('affected') }})
  {%- else -%}{{ model }}
  {%- endif %}
{%- endmacro %}

{# A condition on a record: it was stored in an hour of the set. #}
{% macro is_stored_in_hours_of(set) -%}
  {% if is_incremental_run() %}{{ is_in_ranges('store_time', hour_ranges(set)) }}{% else %}true{% endif %}
{%- endmacro %}

{# A condition on a row with `cluster`: its message belongs to the set. A full refresh computes all messages but the kept ones. #}
{% macro is_message_of(set, message_key='msg_id') -%}
  {% if replaces_some_rows() -%}
  {{ 'not ' if is_refresh_after_retention() }}exists (
    select 1
    from {{ working_table('int_kept_messages' if is_refresh_after_retention() else 'int_' ~ set ~ '_messages') }} as messages_of_set
    where messages_of_set.message_cluster = cluster and messages_of_set.message_key = {{ message_key }}
  )
  {%- else %}true{% endif %}
{%- endmacro %}

{# A condition on `hour`: the run writes the rows of this hour. Spark substitutes what save_hours has saved: each data test of
   such a table has this condition, too, and needs no query for the hours. #}
{% macro hour_is_in(set) -%}
  {%- if is_refresh_after_retention() -%}
  ({{ is_retained('hour') }}{% for hour in hours_of('late') %} or hour = timestamp '{{ hour }}'{% endfor %})
  {%- elif has_hours(set) -%}
  hour in (${trace.{{ set }}_hours_as_literals})
  {%- else %}false{% endif -%}
{%- endmacro %}

{# A condition on `hour`: the run replaces the day of this hour, in a table that is partitioned by day. `kept_from` is the start
   of a day. #}
{% macro day_is_in(set) -%}
  {% set days = [] %}
  {% for hour in hours_of('late' if is_refresh_after_retention() else set) if hour[:10] not in days %}{% do days.append(hour[:10]) %}{% endfor %}
  {%- if is_refresh_after_retention() %}{{ is_retained('hour') }}{{ ' or ' if days }}{% endif -%}
  {%- if days -%}
  {% for day in days %}(hour >= timestamp '{{ day }}' and hour < timestamp '{{ day }}' + interval '1' day){{ ' or ' if not loop.last }}{% endfor %}
  {%- elif not is_refresh_after_retention() %}false{% endif -%}
{%- endmacro %}

{# A condition on `day` in an incremental run: the day has an hour of the set. #}
{% macro date_is_in(set) -%}
  {% set days = [] %}
  {% for hour in hours_of(set) if hour[:10] not in days %}{% do days.append(hour[:10]) %}{% endfor %}
  {%- if days -%}day in ({% for day in days %}date '{{ day }}'{{ ', ' if not loop.last }}{% endfor %})
  {%- else %}false{% endif -%}
{%- endmacro %}

{# A condition: the column is in one of the ranges [from, to).
   Not `(false)`: Spark reads `from t where (false)` as the alias `where` with one column. #}
{% macro is_in_ranges(column, ranges) -%}
  {%- for from_time, to_time in ranges -%}
  {{ '(' if loop.first }}({{ column }} >= timestamp '{{ from_time }}' and {{ column }} < timestamp '{{ to_time }}'){{ ')' if loop.last else ' or ' }}
  {%- else %}false
  {%- endfor -%}
{%- endmacro %}

{# A list: the hours of the set as ranges [from, to); adjacent hours are merged. #}
{% macro hour_ranges(set) %}
  {% set format = '%Y-%m-%d %H:%M:%S' %}
  {% set one_hour = modules.datetime.timedelta(hours=1) %}
  {% set ranges = [] %}
  {% for hour in hours_of(set) %}
    {% set end = (modules.datetime.datetime.strptime(hour, format) + one_hour).strftime(format) %}
    {% if ranges and ranges[-1][1] == hour %}
      {% do ranges.append((ranges.pop()[0], end)) %}
    {% else %}
      {% do ranges.append((hour, end)) %}
    {% endif %}
  {% endfor %}
  {{ return(ranges) }}
{% endmacro %}

{# Post-hook of the models of hours: save the hours in the session. The statements of later models contain them as literals, so
   that Iceberg skips the files of all other hours. #}
{% macro save_hours(set) %}
  {% if can_query() %}
  {% set hours = run_query("select distinct date_format(hour, 'yyyy-MM-dd-HH') as hour from " ~ this ~ " order by hour").columns[0].values() %}
  {% set literals = [] %}
  {% for hour in hours %}{% do literals.append("timestamp '" ~ time_of(hour) ~ "'") %}{% endfor %}
  {% do run_query('set trace.' ~ set ~ '_hours=' ~ (hours | join(','))) %}
  {# No row has this hour. #}
  {% do run_query('set trace.' ~ set ~ '_hours_as_literals=' ~ (literals | join(', ') or "timestamp '0001-01-01 00:00:00'")) %}
  {% endif %}
{% endmacro %}

{# The time of an hour as it is saved. #}
{% macro time_of(hour) -%}
  {{ return(hour[:10] ~ ' ' ~ hour[11:] ~ ':00:00') }}
{%- endmacro %}

{# Whether the hours of the set are saved in this kind of run. #}
{% macro has_hours(set) %}
  {# The model that saves the hours must be built before the model that reads them. #}
  {% do working_table('int_' ~ set ~ '_hours') %}
  {{ return(can_query() and replaces_some_rows()) }}
{% endmacro %}

{# A list: the hours of the set, as save_hours saved them. Empty where no query may be run. #}
{% macro hours_of(set) %}
  {% if not has_hours(set) %}{{ return([]) }}{% endif %}
  {% set hours = [] %}
  {% set saved = run_query('set trace.' ~ set ~ '_hours').rows[0][1] %}
  {% if saved == '<undefined>' %}
    {% do exceptions.raise_compiler_error(this.name ~ ' was built before int_' ~ set ~ '_hours: it does not depend on it') %}
  {% endif %}
  {% for hour in saved.split(',') if hour %}{% do hours.append(time_of(hour)) %}{% endfor %}
  {{ return(hours) }}
{% endmacro %}

{# A relation: a table of the models as it is before this run: published, or in a rebuild on the branch that its run starts from. #}
{% macro published(name) -%}
  {{ 'intermediate' if name.startswith('int_') else 'marts' }}.{{ name }}.branch_{{ var('rebuild') or 'main' }}
{%- endmacro %}

{# The table of a model with the materialization working_table. While dbt parses, this adds the dependency on the model. #}
{% macro working_table(name) -%}
  {%- if not execute %}{% do ref(name) %}{% endif -%}
  changes{{ suffix_of_rebuild() }}.{{ name }}
{%- endmacro %}

{# A relation: the attempts from which deliveries, orphans and messages are computed. #}
{% macro affected_attempts() -%}
  {%- if is_incremental_run() %}{{ working_table('int_affected_attempts') }}
  {%- else %}{{ rows_of_messages('affected', ref('fct_consume_attempts'), message_key_of_attempt()) }}
  {%- endif %}
{%- endmacro %}

{# A mapping: each kind of context that the run changed, to the hour of its first change. Empty where no query may be run. #}
{% macro context_changes() %}
  {% do working_table('int_context_changes') %}
  {% set kinds = {} %}
  {% if can_query() and is_incremental_run() %}
    {% set found = run_query("select kind, date_format(date_trunc('hour', min(changed_from)), 'yyyy-MM-dd HH:mm:ss') from " ~ working_table('int_context_changes') ~ " group by kind") %}
    {% for row in found.rows %}{% do kinds.update({row[0]: row[1]}) %}{% endfor %}
  {% endif %}
  {{ return(kinds) }}
{% endmacro %}

{# A mapping: each cluster to its watermark at the last build. Empty where no query may be run. #}
{% macro watermarks_before() %}
  {% set found = {} %}
  {% if can_query() and is_incremental_run() %}
    {% set rows = run_query(
      "select cluster, date_format(coalesce(watermark, timestamp '1970-01-01'), 'yyyy-MM-dd HH:mm:ss.SSSSSS') from "
      ~ published('int_coverage_inputs')
    ).rows %}
    {% for row in rows %}{% do found.update({row[0]: row[1]}) %}{% endfor %}
  {% endif %}
  {{ return(found) }}
{% endmacro %}

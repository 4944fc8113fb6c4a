{# An incremental run computes anew what the records of one interval of change_seq touch, and nothing else
   (docs/incremental.md). It knows two sets of messages, and the hours in which these have records or rows:
   - changed: with a new record, a replaced one, or a state that the watermark has overtaken;
   - affected: these, and what depends on a context that changed, such as a group's being expected.
   Without `change_seq_from` a run is a full refresh: it computes all messages. Where retention has dropped records from
   events, a full refresh keeps the published rows of these records: of the hours before `kept_from`, and of every message
   that has lost a record (int_kept_messages). Where nothing was dropped, every macro here leaves out its restriction. #}

{% macro is_change_run() -%}
  {{ return(var('change_seq_from', none) is not none) }}
{%- endmacro %}

{# Whether the run is a full refresh that keeps published rows whose records retention has dropped. #}
{% macro is_keeping_refresh() -%}
  {{ return(not is_change_run() and var('kept_from', none) is not none) }}
{%- endmacro %}

{# Whether the run replaces a part of each table: a full refresh that keeps nothing replaces all of it. #}
{% macro replaces_a_part() -%}
  {{ return(is_change_run() or is_keeping_refresh()) }}
{%- endmacro %}

{# Whether statements are run. dbt also compiles the models for its site, where there is no session to ask. #}
{% macro is_running() -%}
  {{ return(execute and flags.WHICH in ('build', 'run', 'test')) }}
{%- endmacro %}

{# The records of the interval. #}
{% macro is_new_record() -%}
  change_seq > {{ var('change_seq_from') | int }} and change_seq <= {{ change_seq_to() }}
{%- endmacro %}

{# The rows of a table in the hours of the set. #}
{% macro in_hours_of(set, relation) -%}
  {% if replaces_a_part() %}(select * from {{ relation }} where {{ hour_is_of(set) }}){% else %}{{ relation }}{% endif %}
{%- endmacro %}

{# The rows of a table that belong to messages of the set. `life` is the table's (macros/lives.sql). #}
{% macro of_messages(set, relation, life='msg_id') -%}
  {% if is_change_run() -%}
  (
    select rows_of_all.*
    from {{ relation }} as rows_of_all
      left semi join {{ working_table('int_' ~ set ~ '_messages') }} as of_set
      on rows_of_all.cluster = of_set.life_cluster and {{ life }} = of_set.life
    where {{ hour_is_of(set) }}
  )
  {%- elif is_keeping_refresh() -%}
  (select * from {{ relation }} where {{ hour_is_of(set) }} and {{ is_message_of(set, life) }})
  {%- else %}{{ relation }}{% endif %}
{%- endmacro %}

{# What a test of a model looks at: the rows of the hours that the run has written; all, where the model has no hours. #}
{% macro written_rows(model) -%}
  {% set rows = in_hours_of('affected', model) -%}
  {% if execute and graph.nodes.values() | selectattr('name', 'equalto', model.identifier) | selectattr('columns.hour') | list %}
  {{- rows }}
  {%- else %}{{ model }}{% endif %}
{%- endmacro %}

{# Of records: stored in an hour of the set. #}
{% macro is_stored_in_hours_of(set) -%}
  {% if is_change_run() %}({{ any_of(hour_ranges(set), 'store_time') }}){% else %}true{% endif %}
{%- endmacro %}

{# Of rows with cluster and `life`: the message is one of the set. A full refresh computes every message but the kept ones. #}
{% macro is_message_of(set, life='msg_id') -%}
  {% if replaces_a_part() -%}
  {{ 'not ' if is_keeping_refresh() }}exists (
    select 1 from {{ working_table('int_kept_messages' if is_keeping_refresh() else 'int_' ~ set ~ '_messages') }} as of_set
    where of_set.life_cluster = cluster and of_set.life = {{ life }}
  )
  {%- else %}true{% endif %}
{%- endmacro %}

{% macro hour_is_of(set) -%}
  {%- if is_keeping_refresh() -%}
  ({{ has_its_records('hour') }}{% for hour in hours_of('late') %} or hour = timestamp '{{ hour }}'{% endfor %})
  {%- else -%}
  {{ hour_is_listed(hours_of(set)) }}
  {%- endif -%}
{%- endmacro %}

{% macro hour_is_listed(hours) -%}
  {%- if hours -%}
  hour in ({% for hour in hours %}timestamp '{{ hour }}'{{ ', ' if not loop.last }}{% endfor %})
  {%- else %}false{% endif -%}
{%- endmacro %}

{# Whole days, as a table that is partitioned by day is replaced. `kept_from` is the begin of a day. #}
{% macro day_is_of(set) -%}
  {% set days = [] %}
  {% for hour in hours_of('late' if is_keeping_refresh() else set) if hour[:10] not in days %}{% do days.append(hour[:10]) %}{% endfor %}
  {%- if is_keeping_refresh() %}{{ has_its_records('hour') }}{{ ' or ' if days }}{% endif -%}
  {%- if days -%}
  {% for day in days %}(hour >= timestamp '{{ day }}' and hour < timestamp '{{ day }}' + interval '1' day){{ ' or ' if not loop.last }}{% endfor %}
  {%- elif not is_keeping_refresh() %}false{% endif -%}
{%- endmacro %}

{% macro any_of(ranges, column) -%}
  {%- for from_time, to_time in ranges -%}
  ({{ column }} >= timestamp '{{ from_time }}' and {{ column }} < timestamp '{{ to_time }}'){{ ' or ' if not loop.last }}
  {%- else %}false
  {%- endfor -%}
{%- endmacro %}

{# The hours of the set as ranges [from, to), neighbours merged. #}
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

{# Hours are literals in the statements, so that Iceberg leaves out files. What a model of hours found is kept in the session. #}
{% macro remember_hours(set) %}
  {% if execute %}
  {% set found = run_query("select distinct date_format(hour, 'yyyy-MM-dd-HH') as hour from " ~ this ~ " order by hour") %}
  {% do run_query('set trace.' ~ set ~ '_hours=' ~ (found.columns[0].values() | join(','))) %}
  {% endif %}
{% endmacro %}

{% macro hours_of(set) %}
  {# The model must have run before whoever asks. #}
  {% do working_table('int_' ~ set ~ '_hours') %}
  {% if not is_running() %}{{ return([]) }}{% endif %}
  {% set hours = [] %}
  {% set remembered = run_query('set trace.' ~ set ~ '_hours').rows[0][1] %}
  {% if remembered == '<undefined>' %}
    {% do exceptions.raise_compiler_error(this.name ~ ' has run before int_' ~ set ~ '_hours: nothing that it reads depends on it') %}
  {% endif %}
  {% for hour in remembered.split(',') if hour %}
    {% do hours.append(hour[:10] ~ ' ' ~ hour[11:] ~ ':00:00') %}
  {% endfor %}
  {{ return(hours) }}
{% endmacro %}

{# A table of the models as readers see it, before this run. #}
{% macro published(name) -%}
  {{ 'intermediate' if name.startswith('int_') else 'marts' }}.{{ name }}.branch_main
{%- endmacro %}

{# The kinds of context that this run changed, each with the hour of its first change. #}
{% macro context_changes() %}
  {% do working_table('int_context_changes') %}
  {% set kinds = {} %}
  {% if is_running() %}
    {% set found = run_query("select kind, date_format(date_trunc('hour', min(changed_from)), 'yyyy-MM-dd HH:mm:ss') from changes.int_context_changes group by kind") %}
    {% for row in found.rows %}{% do kinds.update({row[0]: row[1]}) %}{% endfor %}
  {% endif %}
  {{ return(kinds) }}
{% endmacro %}

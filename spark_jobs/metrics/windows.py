"""The windows of the metrics: per cluster the last complete hour, and the time since midnight."""

from __future__ import annotations

from spark_jobs.lookup.reader import Reader, Span

# The windows of each cluster: the last hour that the watermark has passed by the grace, and the day (UTC) of the watermark.
# A cluster without a watermark, or whose watermark is the epoch, has none.
_WINDOWS = """
create temp table windows as
with complete as (select cluster, complete_to from serving.watermarks where complete_to > timestamp '1970-01-02')
select
  cluster,
  'hour' as "window",
  date_trunc('hour', complete_to - to_seconds($grace)) - interval 1 hour as starts_at,
  date_trunc('hour', complete_to - to_seconds($grace)) as ends_at
from complete
union all
select cluster, 'day', date_trunc('day', complete_to), complete_to
from complete
"""
# Of the hours of the windows only: the mart may be too large to copy.
_ORPHANS = """
create temp table orphans as
select cluster, topic, expected_group, cause, evidence, hour, count(*) as messages
from {source}
where is_orphan
group by all
"""


def create_windows(reader: Reader, grace_seconds: int) -> None:
    """Create the temporary tables `windows` (cluster, window, starts_at, ends_at) and `orphans` of the connection.

    Raises:
        duckdb.Error: a file of the orphaned messages cannot be read.
    """
    reader.query(_WINDOWS, grace=grace_seconds)
    (bounds,) = reader.query("select min(starts_at) as first, max(ends_at) as last from windows")
    hours = Span(bounds["first"], bounds["last"]) if bounds["first"] else ()
    source, parameters = reader.source("marts.orphaned_messages", hours)
    reader.query(_ORPHANS.format(source=source), **parameters)


def windowed(mart: str) -> str:
    """The rows of an hourly mart and of its mart by day that are those of the windows."""
    return f"""(
  select windows."window", mart.* exclude (hour) from windows
  join marts.{mart} as mart on mart.cluster = windows.cluster and mart.hour = windows.starts_at
  where windows."window" = 'hour'
  union all by name
  select windows."window", mart.* exclude (day) from windows
  join marts.{mart}_daily as mart on mart.cluster = windows.cluster and mart.day = windows.starts_at::date
  where windows."window" = 'day'
)"""


def both(mart: str) -> str:
    """The names of an hourly mart and of its mart by day."""
    return f"marts.{mart}, marts.{mart}_daily"

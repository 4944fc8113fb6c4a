-- Views of the file of the dashboards, for charts that need another grain than a mart.

-- One row per topic, producer group, hour and bucket, with the range of send durations; a range is from a power of two to the next.
-- Charts add the cases up, so they are not added up here; and texts are looked up, as to write one for each row takes longer.
create or replace view marts.send_latency_distribution as
select
  cluster,
  topic,
  producer_group,
  hour,
  list_transform(range(41), lambda power: lpad((1::bigint << power)::varchar, 8, ' ') || ' ms')[
    1 + least(floor(log2(greatest(bucket_ms(entry & 8191), 1))), 40)::integer
  ] as duration,
  entry >> 13 as cases
from (select cluster, topic, producer_group, hour, unnest(histogram.entries) as entry from marts.send_latency);

-- One row per cluster: (cluster). Without a watermark, one row with the publication.
create or replace view serving.freshness as
select watermarks.cluster, watermarks.complete_to, publications.built_at as published_at, publications.publication_id
from serving.publications
left join serving.watermarks on true;

create or replace macro html_text(value) as
  replace(replace(replace(replace(replace(value, '&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;'), '''', '&#39;');

-- A link for a table of a dashboard. Message ids are untrusted text.
create or replace macro message_link(cluster, msg_id) as
  coalesce('<a href="' || html_text(message_url(cluster, msg_id)) || '" target="_blank">' || html_text(msg_id) || '</a>', msg_id);

-- A link to a runbook, by its URL, or by its page in Airflow where that address is known; otherwise its path.
create or replace macro runbook_link(runbook) as
  coalesce(
    '<a href="'
    || html_text(
      case
        when regexp_matches(runbook, '^https?://') then runbook
        else (select pages from serving.publications) || '/runbooks/' || parse_filename(runbook)
      end
    )
    || '" target="_blank">' || html_text(parse_filename(runbook, true)) || '</a>',
    runbook
  );

-- The team of a consumer group, or else of the topic: the seed `owners`. Pass NULL for what a row has not. The subqueries rename
-- their columns: in a condition or a grouping, DuckDB takes an argument such as `cluster` for the column of this name in them.
create or replace macro team_of(of_cluster, of_topic, of_group) as
  coalesce(
    (
      select any_value(team)
      from (select cluster as own_cluster, consumer_group as own_group, team from marts.dim_consumer_groups) as groups
      where own_cluster = of_cluster and own_group = of_group
    ),
    (
      select any_value(team)
      from (select cluster as own_cluster, topic as own_topic, team from marts.dim_topics) as topics
      where own_cluster = of_cluster and own_topic = of_topic
    )
  );

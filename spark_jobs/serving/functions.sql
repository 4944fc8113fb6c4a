-- Functions of the serving file. A histogram maps a bucket to a number of cases: docs/definitions.md has the bounds of a bucket.

-- The midpoint of a bucket, in ms.
create or replace macro bucket_ms(bucket) as
  ((bucket - greatest(bucket // 128 - 1, 0) * 128)::bigint << greatest(bucket // 128 - 1, 0))
  + ((1::bigint << greatest(bucket // 128 - 1, 0)) - 1) / 2.0;

-- The nearest-rank percentile of the sum of histograms, in ms, NULL if they are empty. `p` is a decimal such as 0.99.
-- It is used like an aggregate function, but as a macro it takes neither FILTER nor OVER.
-- Like the percentiles of the marts, it is the midpoint of a bucket, and at most the longest case:
-- select topic, percentile_ms(histogram, max_ms, 0.99) from lake.marts.send_latency group by topic
create or replace macro percentile_ms(histogram, max_ms, p) as
  case
    when p <= 0 or p > 1 then error('percentile_ms: p is above 0 and at most 1, such as 0.99')::double
    when p is not null and sum(list_sum(map_values(histogram))) > 0 then least(
    bucket_ms(
      -- The first element has minus the rank, and the walk adds up to zero: in DuckDB 1.5 list_reduce may read a captured column,
      -- or its initial value, from another row.
      list_reduce(
        list_prepend(
          struct_pack(
            key := null::integer,
            value := (-ceil(sum(list_sum(map_values(histogram))) * p::decimal(9, 6)))::bigint
          ),
          list_sort(flatten(list(map_entries(histogram))))
        ),
        lambda walk, entry: struct_pack(
          key := case when walk.value >= 0 then walk.key else entry.key end,
          value := walk.value + entry.value
        )
      ).key
    ),
    max(max_ms)
  ) end;

-- The link to the page of a message, with any characters in its id (spark_jobs/lookup/address.py); NULL where the address of the pages was not known when the file was built.
create or replace macro message_url(cluster, msg_id) as
  (select pages from serving.publications) || '/message?cluster=' || url_encode(cluster) || '&msg_id=' || url_encode(msg_id);

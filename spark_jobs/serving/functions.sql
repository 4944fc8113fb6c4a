-- Functions of the serving file. A histogram maps a bucket to a number of cases: docs/definitions.md has the bounds of a bucket.

-- The midpoint of a bucket, in ms.
create or replace macro bucket_ms(bucket) as
  ((bucket - greatest(bucket // 128 - 1, 0) * 128)::bigint << greatest(bucket // 128 - 1, 0))
  + ((1::bigint << greatest(bucket // 128 - 1, 0)) - 1) / 2.0;

-- One step of bucket_of_rank: the entries without a bit of the bucket if they contain the rank, else those with it. No entry has
-- a bit above the highest bucket.
create or replace macro bucket_of_rank_step(state, power) as
  list_transform(
    list_transform(
      [state],
      lambda s: struct_pack(
        rank := s.rank,
        highest := s.highest,
        entries := s.entries,
        cases := case when s.highest >= power then coalesce(
          list_sum(list_transform(s.entries, lambda entry: case when (entry & power) = 0 then entry >> 13 else 0 end)), 0
        ) end
      )
    ),
    lambda s: case
      when s.cases is null then struct_pack(rank := s.rank, highest := s.highest, entries := s.entries)
      when s.cases >= s.rank
        then struct_pack(
          rank := s.rank, highest := s.highest, entries := list_filter(s.entries, lambda entry: (entry & power) = 0)
        )
      else struct_pack(
        rank := (s.rank - s.cases)::bigint,
        highest := s.highest,
        entries := list_filter(s.entries, lambda entry: (entry & power) != 0)
      )
    end
  )[1];

-- The entries (bucket, number of cases) of a histogram, each packed into one number: a bucket is below 2^13.
create or replace macro pack_entries(entries) as list_transform(entries, lambda entry: (entry.value << 13) + entry.key);

-- The bucket that contains the `rank`-th smallest case of packed entries; a bucket may have several entries.
-- It is found bit by bit, from the highest: list_reduce over the sorted entries keeps the memory of each of its steps, and no list
-- function of DuckDB 1.5 adds up.
create or replace macro bucket_of_rank(entries, rank) as
  bucket_of_rank_step(bucket_of_rank_step(bucket_of_rank_step(bucket_of_rank_step(bucket_of_rank_step(bucket_of_rank_step(
  bucket_of_rank_step(bucket_of_rank_step(bucket_of_rank_step(bucket_of_rank_step(bucket_of_rank_step(bucket_of_rank_step(
  bucket_of_rank_step(
    struct_pack(rank := rank, highest := list_max(list_transform(entries, lambda entry: entry & 8191)), entries := entries),
    4096), 2048), 1024), 512), 256), 128),
    64), 32), 16), 8), 4), 2),
    1).entries[1] & 8191;

-- The nearest-rank percentile of the sum of histograms, in ms, NULL if they are empty. `p` is a decimal such as 0.99.
-- It is used like an aggregate function, but as a macro it takes neither FILTER nor OVER.
-- Like the percentiles of the marts, it is the midpoint of a bucket, and at most the longest case:
-- select topic, percentile_ms(histogram, max_ms, 0.99) from lake.marts.send_latency group by topic
create or replace macro percentile_ms(histogram, max_ms, p) as
  case
    when p <= 0 or p > 1 then error('percentile_ms: p is above 0 and at most 1, such as 0.99')::double
    when p is not null and sum(list_sum(map_values(histogram))) > 0 then least(
      -- A macro evaluates an argument wherever it uses it, bucket_ms four times; a lambda evaluates it once.
      list_transform(
        [
          bucket_of_rank(
            pack_entries(flatten(list(map_entries(histogram)))),
            ceil(sum(list_sum(map_values(histogram))) * p::decimal(9, 6))::bigint
          )
        ],
        lambda bucket: bucket_ms(bucket)
      )[1],
      max(max_ms)
    ) end;

-- The link to the page of a message, with any characters in its id (spark_jobs/lookup/address.py); NULL where the address of the pages was not known when the file was built.
create or replace macro message_url(cluster, msg_id) as
  (select pages from serving.publications) || '/message?cluster=' || url_encode(cluster) || '&msg_id=' || url_encode(msg_id);

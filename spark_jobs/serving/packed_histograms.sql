-- Histograms in the file of the dashboards. Their charts add up the histograms of thousands of rows for each point, and DuckDB 1.5
-- has no aggregate function that adds up maps. A packed histogram has the packed entries of the map, and for each of 16 ranges of
-- buckets the number of cases up to its end: sums of these numbers say which range has a percentile, so only its entries are read.

-- The first buckets after each range. Ranges are as wide as in the view send_latency_distribution: a power of two to the next, in ms;
-- no bucket is after the last one.
create or replace macro range_ends() as [1, 2, 4, 8, 16, 32, 64, 128, 256, 384, 512, 640, 768, 896, 1024, 8192];

create or replace macro pack_histogram(histogram) as
  case
    when histogram is not null then struct_pack(
      entries := pack_entries(map_entries(histogram)),
      up_to := list_transform(
        range_ends(),
        lambda before: coalesce(
          list_sum(list_transform(map_entries(histogram), lambda entry: case when entry.key < before then entry.value end)), 0
        )::bigint
      )::bigint[16]
    ) end;

-- The map from bucket to number of cases.
create or replace macro histogram_map(packed) as
  map_from_entries(
    list_transform(packed.entries, lambda entry: struct_pack(k := (entry & 8191)::integer, v := entry >> 13))
  );

-- The macro of functions.sql, for packed histograms.
create or replace macro percentile_ms(histogram, max_ms, p) as
  case
    when p <= 0 or p > 1 then error('percentile_ms: p is above 0 and at most 1, such as 0.99')::double
    when p is not null and sum(histogram.up_to[16]) > 0 then least(
      -- Each lambda evaluates what the next one uses several times.
      list_transform(
        list_transform(
          list_transform(
            list_transform(
              [
                struct_pack(
                  rank := ceil(sum(histogram.up_to[16]) * p::decimal(9, 6))::bigint,
                  up_to := [
                    sum(histogram.up_to[1]), sum(histogram.up_to[2]), sum(histogram.up_to[3]), sum(histogram.up_to[4]),
                    sum(histogram.up_to[5]), sum(histogram.up_to[6]), sum(histogram.up_to[7]), sum(histogram.up_to[8]),
                    sum(histogram.up_to[9]), sum(histogram.up_to[10]), sum(histogram.up_to[11]), sum(histogram.up_to[12]),
                    sum(histogram.up_to[13]), sum(histogram.up_to[14]), sum(histogram.up_to[15])
                  ]
                )
              ],
              lambda s: struct_pack(rank := s.rank, up_to := s.up_to, range := len(list_filter(s.up_to, lambda n: n < s.rank)))
            ),
            lambda s: struct_pack(
              rank := (s.rank - coalesce(s.up_to[s.range], 0))::bigint,
              low := coalesce(range_ends()[s.range], 0),
              high := range_ends()[s.range + 1]
            )
          ),
          lambda s: s.low + bucket_of_rank(
            list_transform(
              list_filter(
                flatten(list(histogram.entries)), lambda entry: (entry & 8191) >= s.low and (entry & 8191) < s.high
              ),
              lambda entry: entry - s.low
            ),
            s.rank
          )
        ),
        lambda bucket: bucket_ms(bucket)
      )[1],
      max(max_ms)
    ) end;

"""How far the marts' percentiles are from the exact ones of the same rows, hours and hours added up to days."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

PERCENTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}
EXACT_BELOW_MS = 128


@dataclass(frozen=True)
class Mart:
    """A latency mart: the rows of which fact it counts, by what key, and which duration."""

    name: str
    fact: str
    key: tuple[str, ...]
    milliseconds: str
    rows: str = "true"


MARTS = (
    Mart("send_latency", "fct_sends", ("topic", "producer_group"), "cost_ms"),
    Mart(
        "consume_latency",
        "fct_consume_attempts",
        ("consumer_group", "topic"),
        "cost_ms",
        "consumer_group is not null and has_end",
    ),
    Mart("end_to_end_latency", "fct_deliveries", ("consumer_group", "topic"), "end_to_end_ms"),
    Mart("queue_wait", "fct_deliveries", ("consumer_group", "topic"), "queue_wait_ms"),
)


@dataclass(frozen=True)
class Found:
    """Of a mart: percentiles compared, the largest relative error in value, the largest error in ms below 128 ms."""

    mart: str
    compared: int
    largest_ms: float
    relative: float
    below: float


def errors(spark: SparkSession) -> list[Found]:
    """Compare every percentile of every hour and day with the exact nearest-rank one."""
    return [_errors(spark, mart, period) for mart in MARTS for period in ("hour", "day")]


def _errors(spark: SparkSession, mart: Mart, period: str) -> Found:
    name = mart.name if period == "hour" else f"{mart.name}_daily"
    key = ["cluster", *mart.key, period]
    exact = {
        p: F.expr(f"percentile_disc({share}) within group (order by {mart.milliseconds})")
        for p, share in PERCENTILES.items()
    }
    rows = (
        spark.table(f"lake.marts.{mart.fact}")
        .where(f"{mart.rows} and {mart.milliseconds} >= 0")
        .withColumn("day", F.to_date("hour"))
        .groupBy(*key)
        .agg(*[value.cast("double").alias(f"exact_{p}") for p, value in exact.items()])
    )
    pairs = F.explode(
        F.array(*[F.struct(F.col(p).alias("ours"), F.col(f"exact_{p}").alias("exact")) for p in PERCENTILES])
    )
    both = spark.table(f"lake.marts.{name}").where("latency_count > 0").join(rows, key, "full_outer")
    off = F.abs(F.col("pair.ours") - F.col("pair.exact"))
    is_below = F.col("pair.exact") < EXACT_BELOW_MS
    found = (
        both.select(pairs.alias("pair"))
        .agg(
            F.count("*"),
            F.max("pair.exact"),
            F.max(F.when(~is_below, off / F.col("pair.exact"))),
            F.max(F.when(is_below, off)),
            F.count_if(off.isNull()),
        )
        .collect()[0]
    )
    compared, largest, relative, below, alone = found
    assert compared, name
    assert not alone, f"{name}: {alone} of {compared} percentiles are only in the mart or only in the fact"
    return Found(name, compared, largest, relative or 0.0, below or 0.0)

"""The views of the staging models, as the catalog has them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.settings import CATALOG

NAMESPACE = "staging"
DIGEST = "trace.sql_digest"  # a property that the materialization `stable_view` writes


def digests(spark: SparkSession) -> dict[str, str]:
    """Each view of the staging models (`staging.<name>`) with the digest of its SQL.

    Iceberg's Java API is asked: with SQL statements it takes as long as a few models.
    """
    catalog = spark._jsparkSession.sessionState().catalogManager().catalog(CATALOG)
    gateway: Any = spark.sparkContext._gateway
    namespace = gateway.new_array(gateway.jvm.java.lang.String, 1)
    namespace[0] = NAMESPACE
    found = {}
    for view in catalog.listViews(namespace):
        if digest := catalog.loadView(view).properties().get(DIGEST):
            found[f"{NAMESPACE}.{view.name()}"] = digest
    return found

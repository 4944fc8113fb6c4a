"""From the settings of a cluster to the options of the data source `rocketmq`."""

from __future__ import annotations

from spark_jobs.settings import Cluster, Extract


def datasource_options(cluster: Cluster, extract: Extract) -> dict[str, str]:
    """The options of the data source `rocketmq` for a cluster, without topic and offsets."""
    values: dict[str, str | None] = {
        "cluster": cluster.name,
        "namesrv": ";".join(cluster.namesrv),
        "maxOffsetsPerPartition": str(extract.max_offsets_per_partition),
        "maxInflatedBytes": str(extract.max_inflated_bytes),
        "credentialsEnv": cluster.credentials_env,
        "consumerGroup": cluster.consumer_group,
        "client": cluster.client,
    }
    if cluster.tls:
        values |= {
            "tls": "true" if cluster.tls.verify else "insecure",
            "tlsCaFile": cluster.tls.ca_file,
            "tlsCertFile": cluster.tls.cert_file,
            "tlsKeyFile": cluster.tls.key_file,
        }
    return {name: value for name, value in values.items() if value is not None}

"""Start a DAG when brokers have unread trace messages: the trigger of an AssetWatcher.

    Asset("rocketmq.trace_messages", watchers=[AssetWatcher(name="prod", trigger=NewTraceMessagesTrigger("prod"))])

It is the trigger of the provider, with the committed offsets of `lake.raw.trace_messages` in place of those of a consumer group.
The processor of DAG files and each task import this with the DAG: the client and pyiceberg are imported by the triggerer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_rocketmq.triggers.unread import Asked, UnreadMessagesTrigger

if TYPE_CHECKING:
    from spark_jobs.rocketmq.options import Reader
    from spark_jobs.settings import Cluster, Settings


class NewTraceMessagesTrigger(UnreadMessagesTrigger):
    """Fires with `{"cluster": name, "unread": {"<cluster>/<topic>/<broker>/<id>": messages}}`.

    Unread is what no published extraction has read.

    Attributes:
        cluster: name of a cluster in the settings, which the triggerer must have too, with the secrets and the lake's catalog.

    Further arguments: as `UnreadMessagesTrigger`.
    """

    def __init__(self, cluster: str, **when: Any) -> None:
        super().__init__(**when)
        self.cluster = cluster

    @property
    def place(self) -> dict[str, str]:
        """The cluster."""
        return {"cluster": self.cluster}

    def ask(self) -> Asked:
        """Ask the cluster's brokers, and the lake."""
        from spark_jobs.ingest.lag import name, unread_traces

        with self._brokers() as (settings, cluster, client):
            found = unread_traces(settings, cluster, client)
        return Asked(
            {str(name(cluster, queue)): offsets for queue, offsets in found.offsets.items()},
            {str(name(cluster, queue)) for queue in found.from_slaves},
            found.problems,
        )

    def stored_at(self, offsets: Mapping[str, int]) -> tuple[dict[str, int | None], list[str]]:
        """Read the message at each offset."""
        from spark_jobs.ingest.lag import name
        from spark_jobs.rocketmq.unread import stored_at

        with self._brokers() as (_, cluster, client):
            names = {
                queue: str(name(cluster, queue)) for topic in cluster.topics for queue in client.queues(topic)
            }
            wanted = {queue: offsets[key] for queue, key in names.items() if key in offsets}
            found, problems = stored_at(client, wanted)
        return {names[queue]: at for queue, at in found.items()}, problems

    @contextmanager
    def _brokers(self) -> Iterator[tuple[Settings, Cluster, Reader]]:
        """A client with the credentials of the cluster's `airflow_conn_id` or `credentials_env`."""
        from airflow_provider_rocketmq.hooks.rocketmq import RocketMQHook
        from spark_jobs.ingest import lag
        from spark_jobs.settings import Settings

        settings = Settings()
        found = settings.cluster(self.cluster)
        credentials = RocketMQHook(found.airflow_conn_id).credentials() if found.airflow_conn_id else None
        with lag.client(settings, found, credentials) as client:
            yield settings, found, client

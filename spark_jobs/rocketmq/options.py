"""Options of the data source `rocketmq`: strings in, checked values out; nothing unknown passes."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.connection import Tls, split_address
from spark_jobs.rocketmq.message import MAX_INFLATED_BYTES
from spark_jobs.rocketmq.namespace import with_namespace
from spark_jobs.rocketmq.requests import TOOLS_CONSUMER

NAMES = (
    "namesrv",
    "topic",
    "namespace",
    "cluster",
    "startingOffsets",
    "endingOffsets",
    "minPartitions",
    "maxOffsetsPerPartition",
    "maxInflatedBytes",
    "epochs",
    "credentialsEnv",
    "consumerGroup",
    "tls",
    "tlsCaFile",
    "tlsCertFile",
    "tlsKeyFile",
    "timeoutMs",
    "pullsInFlight",
)

QueueMap = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A position by time: the first message stored at or after it (ms since 1970, the broker's clock)."""

    ms: int


Position = Literal["earliest", "latest"] | Timestamp | QueueMap


@dataclass(frozen=True, slots=True)
class Options:
    """The data source's options, checked. Secrets are not among them: `credentials_env` says where they are."""

    namesrv: tuple[str, ...]
    topic: str
    cluster: str
    starting: Position
    ending: Position
    min_partitions: int
    max_offsets_per_partition: int
    max_inflated_bytes: int
    epochs: QueueMap
    credentials_env: str | None
    consumer_group: str
    tls: Tls | None
    timeout_ms: int
    pulls_in_flight: int

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Options:
        """Check the options, whose names are compared without regard to case.

        Raises:
            ValueError: an option is unknown, missing or senseless; the message says which, and what it takes.
        """
        known = {name.lower(): name for name in NAMES}
        values: dict[str, str] = {}
        for name in given:
            if name.lower() not in known:
                near = difflib.get_close_matches(name.lower(), known, 1, 0.5)
                hint = f"did you mean {known[near[0]]!r}?" if near else f"known are {', '.join(NAMES)}"
                raise ValueError(f"option {name!r} is not known to the data source rocketmq: {hint}")
            values[known[name.lower()]] = given[name]
        namesrv = tuple(part.strip() for part in _needed(values, "namesrv").split(";") if part.strip())
        for address in namesrv:
            split_address(address)
        if not namesrv:
            raise ValueError("option 'namesrv' names no nameserver: host:port, several separated by ';'")
        options = cls(
            namesrv=namesrv,
            topic=with_namespace(_needed(values, "topic"), values.get("namespace")),
            cluster=values.get("cluster", ""),
            starting=_position("startingOffsets", values.get("startingOffsets", "earliest")),
            ending=_position("endingOffsets", values.get("endingOffsets", "latest")),
            min_partitions=_count(values, "minPartitions", 1),
            max_offsets_per_partition=_count(values, "maxOffsetsPerPartition", 50_000),
            max_inflated_bytes=_count(values, "maxInflatedBytes", MAX_INFLATED_BYTES),
            epochs=_queue_map("epochs", values.get("epochs", "{}")),
            credentials_env=values.get("credentialsEnv") or None,
            consumer_group=values.get("consumerGroup") or TOOLS_CONSUMER,
            tls=_tls(values),
            timeout_ms=_count(values, "timeoutMs", 10_000),
            pulls_in_flight=_count(values, "pullsInFlight", 64),
        )
        if isinstance(options.starting, dict) and isinstance(options.ending, dict):
            differing = set(_pairs(options.starting)) ^ set(_pairs(options.ending))
            if differing:
                raise ValueError(
                    "startingOffsets and endingOffsets must name the same queues; only one names "
                    + ", ".join(f"{broker}/{queue}" for broker, queue in sorted(differing))
                )
        return options

    def client(self, credentials: Credentials | None = None, attempts: int = 4) -> Client:
        """A client with these options; secrets that are not given are read from this process's environment now.

        Raises:
            ValueError: the environment lacks a secret, or a TLS file is missing.
        """
        try:
            return Client(
                self.namesrv,
                self.cluster,
                credentials or (Credentials.from_env(self.credentials_env) if self.credentials_env else None),
                self.tls,
                timeout=self.timeout_ms / 1000,
                attempts=attempts,
                pulls_in_flight=self.pulls_in_flight,
                max_inflated_bytes=self.max_inflated_bytes,
                consumer_group=self.consumer_group,
            )
        except OSError as error:
            tls = self.tls or Tls()
            files = ", ".join(filter(None, (tls.ca_file, tls.cert_file, tls.key_file))) or "the system's"
            raise ValueError(
                f"the certificates of the tls options ({files}) cannot be used: {error}"
            ) from None


def _pairs(offsets: QueueMap) -> list[tuple[str, int]]:
    return [(broker, queue_id) for broker, queues in offsets.items() for queue_id in queues]


def _needed(values: Mapping[str, str], name: str) -> str:
    if not values.get(name, "").strip():
        raise ValueError(f"option {name!r} is needed")
    return values[name].strip()


def _count(values: Mapping[str, str], name: str, default: int) -> int:
    text = values.get(name, str(default)).strip()
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"option {name!r} takes a whole number above 0, not {text!r}")
    return int(text)


def _tls(values: Mapping[str, str]) -> Tls | None:
    """Option `tls`: false, true, or insecure (no check of the certificate); files in the other tls options."""
    mode = values.get("tls", "false").strip().lower()
    if mode not in ("false", "true", "insecure"):
        raise ValueError(f"option 'tls' takes true, false or insecure, not {mode!r}")
    ca, cert, key = (values.get(name) or None for name in ("tlsCaFile", "tlsCertFile", "tlsKeyFile"))
    if mode == "false":
        if ca or cert or key:
            raise ValueError("options tlsCaFile, tlsCertFile and tlsKeyFile need tls=true")
        return None
    return Tls(ca, cert, key, verify=mode == "true")


def _position(name: str, text: str) -> Position:
    text = text.strip()
    if text.lower() == "earliest":
        return "earliest"
    if text.lower() == "latest":
        return "latest"
    if text.startswith("{"):
        return _queue_map(name, text)
    if text.isdecimal():
        return Timestamp(int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"option {name!r} takes earliest, latest, a time (ms since 1970, or ISO 8601 in UTC) or a JSON map "
            f'such as {{"broker-a": {{"0": 123}}}}, not {text!r}'
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Timestamp(round(moment.timestamp() * 1000))


def _queue_map(name: str, text: str) -> QueueMap:
    try:
        parsed = json.loads(text)
        offsets = {
            str(broker): {int(queue_id): offset for queue_id, offset in queues.items()}
            for broker, queues in parsed.items()
        }
        for broker, queue_id in _pairs(offsets):
            offset = offsets[broker][queue_id]
            if type(offset) is not int or offset < 0 or queue_id < 0:
                raise ValueError(f"{broker}/{queue_id}: {offset!r} is no offset")
    except (ValueError, AttributeError, TypeError) as error:
        example = '{"broker-a": {"0": 123}}'
        raise ValueError(f"option {name!r} takes a JSON map such as {example}: {error}") from None
    return offsets

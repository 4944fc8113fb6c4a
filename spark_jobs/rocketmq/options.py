"""Parse and validate the options of the data source `rocketmq`; an unknown option is an error."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.connection import Tls, split_address
from spark_jobs.rocketmq.message import MAX_INFLATED_BYTES
from spark_jobs.rocketmq.requests import TOOLS_CONSUMER

# Option to its default value.
DEFAULTS = {
    "namesrv": "",
    "topic": "",
    "cluster": "",
    "startingOffsets": "earliest",
    "endingOffsets": "latest",
    "maxOffsetsPerPartition": "50000",
    "maxInflatedBytes": str(MAX_INFLATED_BYTES),
    "epochs": "{}",
    "credentialsEnv": "",
    "consumerGroup": TOOLS_CONSUMER,
    "tls": "false",
    "tlsCaFile": "",
    "tlsCertFile": "",
    "tlsKeyFile": "",
    "timeoutMs": "10000",
    "pullsInFlight": "64",
}
NAMES = tuple(DEFAULTS)

QueueMap = dict[str, dict[int, int]]
Bound = Literal["earliest", "latest"] | QueueMap


@dataclass(frozen=True, slots=True)
class Options:
    """The validated options. They contain no secrets: `credentials_env` is the prefix of the variables that do."""

    namesrv: tuple[str, ...]
    topic: str
    cluster: str
    starting: Bound
    ending: Bound
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
        """Validate the options; their names are case-insensitive.

        Raises:
            ValueError: an option is unknown, missing or invalid; the message names it and its valid values.
        """
        known = {name.lower(): name for name in NAMES}
        values = dict(DEFAULTS)
        for name in given:
            if name.lower() not in known:
                near = difflib.get_close_matches(name.lower(), known, 1, 0.5)
                hint = f"did you mean {known[near[0]]!r}?" if near else f"known are {', '.join(NAMES)}"
                raise ValueError(f"option {name!r} is not known to the data source rocketmq: {hint}")
            values[known[name.lower()]] = given[name]
        namesrv = tuple(part.strip() for part in _required(values, "namesrv").split(";") if part.strip())
        for address in namesrv:
            split_address(address)
        if not namesrv:
            raise ValueError("option 'namesrv' has no nameserver: host:port, several separated by ';'")
        options = cls(
            namesrv=namesrv,
            topic=_required(values, "topic"),
            cluster=values["cluster"],
            starting=_bound(values, "startingOffsets"),
            ending=_bound(values, "endingOffsets"),
            max_offsets_per_partition=_count(values, "maxOffsetsPerPartition"),
            max_inflated_bytes=_count(values, "maxInflatedBytes"),
            epochs=_queue_map(values, "epochs"),
            credentials_env=values["credentialsEnv"] or None,
            consumer_group=values["consumerGroup"] or TOOLS_CONSUMER,
            tls=_tls(values),
            timeout_ms=_count(values, "timeoutMs"),
            pulls_in_flight=_count(values, "pullsInFlight"),
        )
        maps = [set(queues_of(b)) for b in (options.starting, options.ending) if isinstance(b, dict)]
        if len(maps) == 2 and (in_one := maps[0] ^ maps[1]):
            raise ValueError(
                "startingOffsets and endingOffsets must name the same queues; only one names "
                + ", ".join(f"{broker}/{queue}" for broker, queue in sorted(in_one))
            )
        return options

    def client(self, credentials: Credentials | None = None, attempts: int = 4) -> Client:
        """A client with these options; without `credentials` they are read from the environment of this process.

        Raises:
            ValueError: a variable with a secret is not set, or a TLS file is missing.
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


def queues_of(offsets: QueueMap) -> list[tuple[str, int]]:
    """The (broker, queue id) pairs in the map."""
    return [(broker, queue_id) for broker, queues in offsets.items() for queue_id in queues]


def _required(values: Mapping[str, str], name: str) -> str:
    if not (value := values[name].strip()):
        raise ValueError(f"option {name!r} is required")
    return value


def _count(values: Mapping[str, str], name: str) -> int:
    text = values[name].strip()
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"option {name!r} must be an integer above 0, not {text!r}")
    return int(text)


def _tls(values: Mapping[str, str]) -> Tls | None:
    """Option `tls`: false, true, or insecure (certificates are not verified); the other tls options name files."""
    mode = values["tls"].strip().lower()
    if mode not in ("false", "true", "insecure"):
        raise ValueError(f"option 'tls' must be true, false or insecure, not {mode!r}")
    ca, cert, key = (values[name] or None for name in ("tlsCaFile", "tlsCertFile", "tlsKeyFile"))
    if mode == "false":
        if ca or cert or key:
            raise ValueError("options tlsCaFile, tlsCertFile and tlsKeyFile require tls=true")
        return None
    return Tls(ca, cert, key, verify=mode == "true")


def _bound(values: Mapping[str, str], name: str) -> Bound:
    text = values[name].strip()
    if text.lower() in ("earliest", "latest"):
        return "earliest" if text.lower() == "earliest" else "latest"
    if text.startswith("{"):
        return _queue_map(values, name)
    raise ValueError(
        f"option {name!r} must be earliest, latest or a JSON map such as "
        f'{{"broker-a": {{"0": 123}}}}, not {text!r}'
    )


def _queue_map(values: Mapping[str, str], name: str) -> QueueMap:
    try:
        parsed = json.loads(values[name])
        offsets = {
            str(broker): {int(queue_id): offset for queue_id, offset in queues.items()}
            for broker, queues in parsed.items()
        }
        for broker, queue_id in queues_of(offsets):
            offset = offsets[broker][queue_id]
            if type(offset) is not int or offset < 0 or queue_id < 0:
                raise ValueError(f"{broker}/{queue_id}: {offset!r} is not an offset")
    except (ValueError, AttributeError, TypeError) as error:
        example = '{"broker-a": {"0": 123}}'
        raise ValueError(f"option {name!r} must be a JSON map such as {example}: {error}") from None
    return offsets

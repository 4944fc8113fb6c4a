"""Parse and validate the options of the data source `rocketmq`; an unknown option is an error."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from spark_jobs.rocketmq.acl import Credentials
from spark_jobs.rocketmq.client import Client
from spark_jobs.rocketmq.connection import Tls, split_address
from spark_jobs.rocketmq.librocketmq.client import LibraryClient
from spark_jobs.rocketmq.librocketmq.limits import NO_FACTS, NO_TLS, OFFICIAL, ClientName, UnsupportedError
from spark_jobs.rocketmq.message import MAX_INFLATED_BYTES
from spark_jobs.rocketmq.requests import TOOLS_CONSUMER

QueueMap = dict[str, dict[int, int]]
Bound = Literal["earliest", "latest"] | QueueMap
# What reads a cluster; the option `client` decides.
Reader = Client | LibraryClient


def queues_of(offsets: QueueMap) -> list[tuple[str, int]]:
    """The (broker, queue id) pairs in the map."""
    return [(broker, queue_id) for broker, queues in offsets.items() for queue_id in queues]


def _required(name: str, text: str) -> str:
    if not text.strip():
        raise ValueError(f"option {name!r} is required")
    return text.strip()


def _addresses(name: str, text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in _required(name, text).split(";") if part.strip())
    for address in found:
        split_address(address)
    if not found:
        raise ValueError(f"option {name!r} has no nameserver: host:port, several separated by ';'")
    return found


def _count(name: str, text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError(f"option {name!r} must be an integer above 0, not {text.strip()!r}")
    return int(text)


def _tls(name: str, text: str) -> Tls | None:
    mode = text.strip().lower()
    if mode not in ("false", "true", "insecure"):
        raise ValueError(f"option {name!r} must be true, false or insecure, not {mode!r}")
    return None if mode == "false" else Tls(verify=mode == "true")


def _client(name: str, text: str) -> ClientName:
    for each in get_args(ClientName):
        if text.strip().lower() == each:
            found: ClientName = each
            return found
    raise ValueError(f"option {name!r} must be {' or '.join(get_args(ClientName))}, not {text.strip()!r}")


def _bound(name: str, text: str) -> Bound:
    if text.strip().lower() in ("earliest", "latest"):
        return "earliest" if text.strip().lower() == "earliest" else "latest"
    if text.strip().startswith("{"):
        return _queue_map(name, text)
    raise ValueError(
        f"option {name!r} must be earliest, latest or a JSON map such as "
        f'{{"broker-a": {{"0": 123}}}}, not {text.strip()!r}'
    )


def _queue_map(name: str, text: str) -> QueueMap:
    try:
        offsets = {
            str(broker): {int(queue_id): offset for queue_id, offset in queues.items()}
            for broker, queues in json.loads(text).items()
        }
        for broker, queue_id in queues_of(offsets):
            offset = offsets[broker][queue_id]
            if type(offset) is not int or offset < 0 or queue_id < 0:
                raise ValueError(f"{broker}/{queue_id}: {offset!r} is not an offset")
    except (ValueError, AttributeError, TypeError) as error:
        example = '{"broker-a": {"0": 123}}'
        raise ValueError(f"option {name!r} must be a JSON map such as {example}: {error}") from None
    return offsets


def _text(name: str, text: str) -> str | None:
    return text or None


def _option(default: str, parse: Callable[[str, str], Any]) -> Any:
    """A field of `Options` that `parse` makes from the option's name and text."""
    return field(metadata={"default": default, "parse": parse})


@dataclass(frozen=True, slots=True)
class Options:
    """The validated options. They contain no secrets: `credentials_env` is the prefix of the variables that do."""

    namesrv: tuple[str, ...] = _option("", _addresses)
    topic: str = _option("", _required)
    cluster: str = _option("", lambda _, text: text)
    starting_offsets: Bound = _option("earliest", _bound)
    ending_offsets: Bound = _option("latest", _bound)
    max_offsets_per_partition: int = _option("50000", _count)
    max_inflated_bytes: int = _option(str(MAX_INFLATED_BYTES), _count)
    epochs: QueueMap = _option("{}", _queue_map)
    credentials_env: str | None = _option("", _text)
    consumer_group: str = _option(TOOLS_CONSUMER, lambda _, text: text or TOOLS_CONSUMER)
    tls: Tls | None = _option("false", _tls)
    tls_ca_file: str | None = _option("", _text)
    tls_cert_file: str | None = _option("", _text)
    tls_key_file: str | None = _option("", _text)
    timeout_ms: int = _option("10000", _count)
    pulls_in_flight: int = _option("64", _count)
    client: ClientName = _option("remoting", _client)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Options:
        """Validate the options; their names are case-insensitive.

        Raises:
            ValueError: an option is unknown, missing or invalid; the message names it and its valid values.
        """
        known = {name.lower(): name for name in NAMES}
        texts = {name: each.metadata["default"] for name, each in NAMES.items()}
        for name in given:
            if name.lower() not in known:
                near = difflib.get_close_matches(name.lower(), known, 1, 0.5)
                hint = f"did you mean {known[near[0]]!r}?" if near else f"known are {', '.join(NAMES)}"
                raise ValueError(f"option {name!r} is not known to the data source rocketmq: {hint}")
            texts[known[name.lower()]] = given[name]
        parsed = {each.name: each.metadata["parse"](name, texts[name]) for name, each in NAMES.items()}
        options = cls(**parsed)
        if not options.tls and (options.tls_ca_file or options.tls_cert_file or options.tls_key_file):
            raise ValueError("options tlsCaFile, tlsCertFile and tlsKeyFile require tls=true")
        if options.tls and options.client == OFFICIAL:
            raise ValueError(NO_TLS)
        maps = [
            set(queues_of(b))
            for b in (options.starting_offsets, options.ending_offsets)
            if isinstance(b, dict)
        ]
        if len(maps) == 2 and (in_one := maps[0] ^ maps[1]):
            raise ValueError(
                "startingOffsets and endingOffsets must name the same queues; only one names "
                + ", ".join(f"{broker}/{queue}" for broker, queue in sorted(in_one))
            )
        return options

    def open(self, credentials: Credentials | None = None, attempts: int = 4) -> Reader:
        """A client as the option `client` names it; without `credentials` they are read from the environment.

        Raises:
            ValueError: a variable with a secret is not set, or a TLS file is missing.
        """
        if self.client != OFFICIAL:
            return self.open_remoting(credentials, attempts)
        return LibraryClient(
            self.namesrv,
            self.cluster,
            credentials or (Credentials.from_env(self.credentials_env) if self.credentials_env else None),
            timeout=self.timeout_ms / 1000,
            attempts=attempts,
            max_inflated_bytes=self.max_inflated_bytes,
            consumer_group=self.consumer_group,
        )

    def open_remoting(self, credentials: Credentials | None = None, attempts: int = 4) -> Client:
        """A client of the remoting protocol with these options, for requests that only it has.

        Raises:
            UnsupportedError: the option `client` names the other one.
            ValueError: as `open`.
        """
        if self.client == OFFICIAL:
            raise UnsupportedError(NO_FACTS)
        files = self.tls_ca_file, self.tls_cert_file, self.tls_key_file
        try:
            return Client(
                self.namesrv,
                self.cluster,
                credentials or (Credentials.from_env(self.credentials_env) if self.credentials_env else None),
                self.tls and Tls(*files, verify=self.tls.verify),
                timeout=self.timeout_ms / 1000,
                attempts=attempts,
                pulls_in_flight=self.pulls_in_flight,
                max_inflated_bytes=self.max_inflated_bytes,
                consumer_group=self.consumer_group,
            )
        except OSError as error:
            names = ", ".join(filter(None, files)) or "the system's"
            raise ValueError(
                f"the certificates of the tls options ({names}) cannot be used: {error}"
            ) from None


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


# Option to the field of `Options` that it becomes.
NAMES = {_camel_case(each.name): each for each in fields(Options)}

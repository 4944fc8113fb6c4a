"""What the text of a message id says: who made it, and when.

Layouts, in bytes; all but the last are written in hex:

- client id (`MessageClientIDSetter` of the Java client, also the C++ and Python clients): address (4 or 16), process id (2),
  hash (4), milliseconds since the start of the month in the client's time zone (4), counter (2);
- Go's client id (`CreateUniqID`): the same with zeros for the hash, and seconds for the milliseconds;
- broker's id, `offsetMsgId` (`MessageDecoder.createMessageId`): address (4 or 16), port (4), offset in the commit log (8);
- gRPC id (`MessageIdCodec`): version 01 (1), MAC address (6), process id (2), seconds since 2021-01-01 UTC (4), counter (4).
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

import mmh3
import xxhash

_HEX = re.compile(r"[0-9A-Fa-f]+")
# An address of 4 or 16 bytes before 12 other bytes.
_V4, _V6 = 32, 56
_GRPC = 34
_GRPC_EPOCH = datetime(2021, 1, 1)
_LONGEST_MONTH = timedelta(days=31)
# Time zones are between UTC-12 and UTC+14.
_LATEST_ZONE, _EARLIEST_ZONE = timedelta(hours=14), timedelta(hours=12)
# The seed of Spark's xxhash64.
_SEED = 42


class Maker(StrEnum):
    """Who made an identifier."""

    CLIENT = "client"
    BROKER = "broker"
    GRPC = "gRPC client"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Identifier:
    """An identifier of a message, and what its text says.

    Attributes:
        text: the identifier.
        maker: who made it, by its form; other texts may have the same form by chance.
        host: address of the client, address and port of the broker.
        process_id: of the client.
        since_month: time of the id since the start of a month in the client's time zone; the month is unknown.
        made_at: time of the id, UTC; of a gRPC client only.
    """

    text: str
    maker: Maker = Maker.UNKNOWN
    host: str | None = None
    process_id: int | None = None
    since_month: timedelta | None = None
    made_at: datetime | None = None

    @classmethod
    def of(cls, text: str) -> Identifier:
        """What the text says; `Maker.UNKNOWN` for a text of another form."""
        if not _HEX.fullmatch(text) or not text.isascii():
            return cls(text)
        if len(text) == _GRPC and text.startswith("01"):
            made_at = _GRPC_EPOCH + timedelta(seconds=int(text[18:26], 16))
            return cls(text, Maker.GRPC, process_id=int(text[14:18], 16), made_at=made_at)
        if len(text) not in (_V4, _V6):
            return cls(text)
        address, rest = text[:-24], text[-24:]
        host = str(ipaddress.ip_address(bytes.fromhex(address)))
        # The port of a broker has two bytes; no client has the process id 0.
        if rest.startswith("0000"):
            port = int(rest[:8], 16)
            return cls(text, Maker.BROKER, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        is_of_go = rest[4:12] == "00000000"
        ticks = int(rest[12:20], 16)
        since_month = timedelta(seconds=ticks) if is_of_go else timedelta(milliseconds=ticks)
        if since_month > _LONGEST_MONTH:
            return cls(text)
        return cls(text, Maker.CLIENT, host, int(rest[:4], 16), since_month)

    def made_between(self, first: datetime, last: datetime) -> list[tuple[datetime, datetime]]:
        """The ranges of time, UTC, in which the id can have been made; each of a client's id is of one month.

        Args:
            first: no earlier ranges.
            last: no later ranges.
        """
        if self.made_at:
            return [(self.made_at, self.made_at + timedelta(seconds=1))]
        if self.since_month is None:
            return []
        found = []
        month = datetime(first.year, first.month, 1) - timedelta(days=1)
        month = month.replace(day=1)
        while month <= last + _LATEST_ZONE:
            following = (month + timedelta(days=32)).replace(day=1)
            made = month + self.since_month
            span = (made - _LATEST_ZONE, made + _EARLIEST_ZONE)
            if made < following and span[1] >= first and span[0] <= last:
                found.append(span)
            month = following
        return found


def spellings(text: str) -> list[str]:
    """The text and, of a generated message id, the spellings of its hex digits that clients and brokers use."""
    if len(text) not in (_V4, _GRPC, _V6) or not text.isascii() or not _HEX.fullmatch(text):
        return [text]
    of_go = text[:-12].upper() + text[-12:].lower()
    return list(dict.fromkeys([text, text.upper(), of_go, text.lower()]))


def identifier_hash(cluster: str, identifier: str) -> int:
    """`xxhash64(cluster, identifier)` of Spark, as in `int_identifier_hours`."""
    seed = xxhash.xxh64_intdigest(cluster.encode("utf-8", "surrogatepass"), seed=_SEED)
    value = xxhash.xxh64_intdigest(identifier.encode("utf-8", "surrogatepass"), seed=seed)
    return value - (1 << 64) if value >= 1 << 63 else value


def bucket_hash(of: int) -> int:
    """The hash of a bigint that Iceberg's transform `bucket[n]` takes modulo n: 32 bits of Murmur3, without the sign."""
    return mmh3.hash(of.to_bytes(8, "little", signed=True)) & 0x7FFFFFFF

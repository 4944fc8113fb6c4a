"""Identifiers as clients and brokers write them.

A Java client (MessageClientIDSetter) writes 32 hexadecimal digits: 8 of its address, 4 of its process id, 8 of its class
loader's hash, 8 of the milliseconds since the month began, 4 of a counter. Request ids of consume attempts are made by
the same method, in the consumer. A broker's id is 32 digits, too: 8 of its address, 8 of its port, 16 of the message's
position in its commit log.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from pyspark.sql import Column
from pyspark.sql import functions as F

from benchmarks.history import MESSAGES, Ids, Naming

HOT_KEY = "customer-4711"
_PRODUCERS, _CONSUMERS = 0x0A1E0000, 0x0A280000  # 10.30.0.0 and 10.40.0.0
_BROKER, _PORT = 0x0A140001, 10911
_HOSTS = 24  # of producers, and as many of consumers
_MONTHS = [int(datetime(2026, month, 1, tzinfo=UTC).timestamp() * 1000) for month in (10, 11)]
_SIZE = 700  # of a message in the commit log, bytes


def java_ids(hot_every: int) -> Naming:
    """Ids as clients write them, a key for each message, and the hot key beside it in each of so many messages."""

    def named(n: Column, index: int, sent: Column, received: Column) -> Ids:
        serial = n * MESSAGES + index
        key = F.concat(F.lit("order-"), serial)
        is_hot = serial % hot_every == 0
        return Ids(
            message=_client_id(_PRODUCERS, serial, sent),
            stored=F.concat(F.lit(f"{_BROKER:08X}{_PORT:08X}"), _hex(serial * _SIZE, 16)),
            keys=F.when(is_hot, F.concat(key, F.lit(f" {HOT_KEY}"))).otherwise(key),
            first=_client_id(_CONSUMERS, serial, received),
            second=_client_id(_CONSUMERS, serial, received + 10_000),
        )

    return named


def _client_id(network: int, serial: Column, at_ms: Column) -> Column:
    """Of one of the processes of a network. Short: Spark compiles at most 64 KB of code for a body."""
    processes = F.array(*[F.lit(_process(network + host)) for host in range(_HOSTS)])
    month = F.lit(_MONTHS[0])
    for start in _MONTHS[1:]:
        month = F.when(at_ms >= start, F.lit(start)).otherwise(month)
    return F.concat(
        processes[F.pmod(serial * 7919, F.lit(_HOSTS)).cast("int")],
        _hex((at_ms - month) * 2**16 + F.pmod(serial, F.lit(2**16)), 12),
    )


def _process(address: int) -> str:
    """Address, process id and hash of a process."""
    drawn = hashlib.sha256(str(address).encode()).hexdigest().upper()
    return f"{address:08X}{drawn[:12]}"


def _hex(number: Column, digits: int) -> Column:
    return F.lpad(F.hex(number), digits, "0")

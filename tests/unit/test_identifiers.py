"""What the text of a message id says."""

from __future__ import annotations

import ipaddress
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType

from spark_jobs.lookup.identifiers import Identifier, Maker, bucket_hash

MS = timedelta(milliseconds=1)
addresses = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6))
times = st.datetimes(datetime(2024, 1, 1), datetime(2026, 12, 31))
# Minutes east of UTC.
zones = st.integers(-12 * 60, 14 * 60)


def client_id(address, process_id: int, hash_code: int, since_month: timedelta, counter: int) -> str:
    """As MessageClientIDSetter of the Java client writes it."""
    ms = since_month // MS
    return f"{address.packed.hex()}{process_id:04x}{hash_code:08x}{ms:08x}{counter:04x}".upper()


@given(addresses, st.integers(1, 65535), st.integers(1, 2**32 - 1), times, zones, st.integers(0, 65535))
def test_a_clients_id_gives_its_process_and_a_range_with_its_time(
    address, process_id, hash_code, made_at, zone, counter
):
    local = made_at + timedelta(minutes=zone)
    month = local.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    found = Identifier.of(client_id(address, process_id, hash_code, local - month, counter))
    assert (found.maker, found.host, found.process_id) == (Maker.CLIENT, str(address), process_id)
    assert found.since_month // MS == (local - month) // MS
    ranges = found.made_between(made_at - timedelta(days=100), made_at + timedelta(days=1))
    assert any(start <= made_at <= end + MS for start, end in ranges)
    assert all(end - start == timedelta(hours=26) for start, end in ranges)
    assert len(ranges) <= 5


@given(addresses, st.integers(1, 65535), st.integers(0, 2**63 - 1))
def test_a_brokers_id_gives_its_address(address, port, offset):
    found = Identifier.of(f"{address.packed.hex()}{port:08x}{offset:016x}".upper())
    assert found.maker is Maker.BROKER
    host, _, text = found.host.rpartition(":")
    assert (ipaddress.ip_address(host.strip("[]")), text) == (address, str(port))
    assert found.made_between(datetime(2026, 1, 1), datetime(2026, 12, 31)) == []


def test_an_id_of_go_counts_seconds():
    found = Identifier.of("0A0000014A60000000000015f9d20001")
    assert (found.maker, found.since_month) == (Maker.CLIENT, timedelta(seconds=0x15F9D2))


def test_an_id_of_grpc_gives_its_second():
    made_at = datetime(2026, 11, 20, 12, 0, 5)
    seconds = int((made_at - datetime(2021, 1, 1)).total_seconds())
    found = Identifier.of(f"01{'AB' * 6}{77:04X}{seconds:08X}{3:08X}")
    assert (found.maker, found.process_id, found.made_at) == (Maker.GRPC, 77, made_at)
    assert found.made_between(made_at, made_at) == [(made_at, made_at + timedelta(seconds=1))]


@given(st.text())
def test_any_text_is_an_identifier(text):
    found = Identifier.of(text)
    assert found.text == text
    found.made_between(datetime(2026, 1, 1), datetime(2026, 12, 31))


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 64))
def test_the_bucket_of_a_hash_is_that_of_iceberg(of, buckets):
    assert bucket_hash(of) % buckets == BucketTransform(buckets).transform(LongType())(of)

"""Options of the data source: every wrong one is refused with words that help."""

from __future__ import annotations

import pytest

from spark_jobs.rocketmq.namespace import with_namespace
from spark_jobs.rocketmq.options import NAMES, Options

GIVEN = {"namesrv": "a:9876; b:9876", "topic": "T"}


def test_defaults():
    options = Options.parse(GIVEN)
    assert options.namesrv == ("a:9876", "b:9876")
    assert (options.starting_offsets, options.ending_offsets) == ("earliest", "latest")
    assert (options.max_offsets_per_partition, options.max_inflated_bytes) == (50_000, 33_554_432)
    assert (options.credentials_env, options.tls) == (None, None)


def test_names_are_compared_without_regard_to_case():
    given = {name.lower(): value for name, value in GIVEN.items()}
    assert Options.parse({**given, "startingoffsets": "latest"}).starting_offsets == "latest"


@pytest.mark.parametrize("name", NAMES)
def test_a_misspelt_option_names_the_nearest(name: str):
    with pytest.raises(ValueError, match=f"did you mean '{name}'"):
        Options.parse({**GIVEN, name[:-1] + "x": "1"})


def test_an_option_like_no_other_lists_them_all():
    with pytest.raises(ValueError, match="known are namesrv, topic"):
        Options.parse({**GIVEN, "qqq": "1"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Earliest", "earliest"),
        ('{"broker-a": {"0": 123, "1": 0}}', {"broker-a": {0: 123, 1: 0}}),
    ],
)
def test_positions(text: str, expected: object):
    assert Options.parse({**GIVEN, "startingOffsets": text}).starting_offsets == expected


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("namesrv", "", "'namesrv' is required"),
        ("namesrv", "localhost", "is not host:port"),
        ("topic", " ", "'topic' is required"),
        ("startingOffsets", "yesterday", "earliest, latest or a JSON map"),
        ("endingOffsets", '{"b": 3}', "JSON map"),
        ("endingOffsets", '{"b": {"0": -1}}', "not an offset"),
        ("endingOffsets", '{"b": {"0": true}}', "not an offset"),
        ("epochs", '{"b": {"x": 1}}', "JSON map"),
        ("pullsInFlight", "0", "above 0"),
        ("maxOffsetsPerPartition", "1e3", "above 0"),
        ("tls", "maybe", "true, false or insecure"),
        ("tlsCaFile", "/ca.pem", "require tls=true"),
    ],
)
def test_wrong_values(name: str, value: str, message: str):
    with pytest.raises(ValueError, match=message):
        Options.parse({**GIVEN, name: value})


def test_maps_must_name_the_same_queues():
    maps = {"startingOffsets": '{"b": {"0": 1}}', "endingOffsets": '{"b": {"0": 2, "1": 2}}'}
    with pytest.raises(ValueError, match="only one names b/1"):
        Options.parse({**GIVEN, **maps})


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("my_trace", "INST_1%my_trace"),
        ("INST_1%my_trace", "INST_1%my_trace"),
        ("RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRACE_TOPIC"),
        ("rmq_sys_TRACE_DATA_cn-1", "rmq_sys_TRACE_DATA_cn-1"),
    ],
)
def test_a_namespace_is_part_of_the_names_of_its_own_topics(topic: str, name: str):
    """As `NamespaceUtil.wrapNamespace` of the Java client does it."""
    assert with_namespace(topic, "INST_1") == name


def test_secrets_are_not_read_before_a_client_is_made(monkeypatch: pytest.MonkeyPatch):
    options = Options.parse({**GIVEN, "credentialsEnv": "NOT_SET"})
    with pytest.raises(ValueError, match="NOT_SET_ACCESS_KEY and NOT_SET_SECRET_KEY"):
        options.open()
    monkeypatch.setenv("NOT_SET_ACCESS_KEY", "a")
    monkeypatch.setenv("NOT_SET_SECRET_KEY", "very-secret")
    options.open().close()
    assert "very-secret" not in repr(options)


def test_a_missing_tls_file_is_named():
    with pytest.raises(ValueError, match=r"ca\.pem"):
        Options.parse({**GIVEN, "tls": "true", "tlsCaFile": "/no/such/ca.pem"}).open()

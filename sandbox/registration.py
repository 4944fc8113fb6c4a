"""Whether a broker is in a nameserver's route, and how to register it at once."""

from __future__ import annotations

from contextlib import suppress

from spark_jobs.rocketmq import requests
from spark_jobs.rocketmq.connection import Connection
from spark_jobs.rocketmq.errors import RocketMQError
from spark_jobs.rocketmq.frames import Frame

UPDATE_BROKER_CONFIG = 25
TIMEOUT_SECONDS = 2.0


def serves(namesrv: str, topic: str, broker_address: str) -> bool:
    """Whether `namesrv` ("host:port") has the broker in the route of the topic; false if it is unreachable."""
    try:
        frame = _call(namesrv, requests.GET_ROUTE_INFO_BY_TOPIC, requests.route(topic))
    except RocketMQError:
        return False
    return frame.code == requests.SUCCESS and f'"{broker_address}"'.encode() in bytes(frame.body)


def register_now(broker_address: str) -> None:
    """Make a broker register at its nameservers at once. An unreachable broker is not an error.

    A broker that starts before it has a connection to the nameserver retries only after 10 s. It also registers when its
    permission is set; this sets the permission to the value that it has.
    """
    with suppress(RocketMQError):
        _call(broker_address, UPDATE_BROKER_CONFIG, {}, b"brokerPermission=6")


def _call(address: str, code: int, fields: dict[str, str], body: bytes = b"") -> Frame:
    with Connection(address, timeout=TIMEOUT_SECONDS, connect_timeout=TIMEOUT_SECONDS) as connection:
        return connection.call(code, fields, body)

"""Decode routes: the brokers of a topic, their addresses and numbers of queues."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from spark_jobs.rocketmq import fastjson
from spark_jobs.rocketmq.connection import split_address
from spark_jobs.rocketmq.errors import ProtocolError

_PERM_READ = 4
# Maximum number of queues of one topic on one broker; a response with more is not a route.
_MAX_QUEUES = 65_536


@dataclass(frozen=True, slots=True)
class MessageQueue:
    """One queue of a topic on one broker, from the route.

    Attributes:
        topic: the topic's name.
        broker: the broker's name; a master and its slaves have the same one.
        queue_id: id of the queue on that broker.
        addresses: (broker id, `host:port`), ascending; id 0 is the master.
        readable: the topic's perm on this broker permits reading.
    """

    topic: str
    broker: str
    queue_id: int
    addresses: tuple[tuple[int, str], ...]
    readable: bool = True


def decode_route(topic: str, body: bytes) -> list[MessageQueue]:
    """The queues in a response to GET_ROUTE_INFO_BY_TOPIC, sorted by broker and queue id.

    Raises:
        ProtocolError: the response is not a route.
    """
    try:
        route = fastjson.loads(body)  # before 4.9.4: {"brokerAddrs":{0:"10.0.0.1:10911"}}
        addresses = {
            str(broker["brokerName"]): _addresses(broker["brokerAddrs"])
            for broker in route.get("brokerDatas") or []
        }
        return sorted(
            (
                MessageQueue(
                    topic=topic,
                    broker=str(queues["brokerName"]),
                    queue_id=queue_id,
                    addresses=addresses.get(str(queues["brokerName"]), ()),
                    readable=bool(int(queues["perm"]) & _PERM_READ),
                )
                for queues in route.get("queueDatas") or []
                for queue_id in range(_queue_count(queues["readQueueNums"]))
            ),
            key=lambda queue: (queue.broker, queue.queue_id),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ProtocolError(
            f"the route of topic {topic} cannot be decoded: {error!r}: {body[:200]!r}"
        ) from None


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker, as it is registered at a nameserver.

    Attributes:
        name: the broker's name; a master and its slaves have the same one.
        addresses: (broker id, `host:port`), ascending; id 0 is the master.
        cluster: the name of its cluster in its own configuration (brokerClusterName); empty if unknown.
    """

    name: str
    addresses: tuple[tuple[int, str], ...]
    cluster: str = ""


def decode_brokers(body: bytes) -> list[Broker]:
    """The registered brokers in a response to GET_BROKER_CLUSTER_INFO, by name.

    Raises:
        ProtocolError: the response cannot be decoded.
    """
    try:
        table = fastjson.loads(body).get("brokerAddrTable") or {}
        return [
            Broker(str(name), _addresses(broker.get("brokerAddrs") or {}), str(broker.get("cluster") or ""))
            for name, broker in sorted(table.items())
        ]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ProtocolError(f"the list of brokers cannot be decoded: {error!r}: {body[:200]!r}") from None


def _addresses(by_id: dict[str, str]) -> tuple[tuple[int, str], ...]:
    for address in by_id.values():
        split_address(address)
    return tuple(sorted((int(number), address) for number, address in by_id.items()))


def _queue_count(value: int | str) -> int:
    if (count := int(value)) > _MAX_QUEUES:
        raise ValueError(f"{count} queues on one broker")
    return count


def union(routes: Iterable[list[MessageQueue]]) -> list[MessageQueue]:
    """The queues of all routes, merged: a nameserver that has just started may know only some brokers."""
    merged: dict[tuple[str, int], MessageQueue] = {}
    for queue in (queue for route in routes for queue in route):
        key = queue.broker, queue.queue_id
        if (known := merged.get(key)) is not None:
            addresses = dict(queue.addresses) | dict(known.addresses)
            readable = known.readable or queue.readable
            queue = replace(queue, addresses=tuple(sorted(addresses.items())), readable=readable)
        merged[key] = queue
    return [merged[key] for key in sorted(merged)]

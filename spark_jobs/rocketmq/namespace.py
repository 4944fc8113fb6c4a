"""Namespaces of instances that share a cluster: `<namespace>%<topic>` (`NamespaceUtil` of the Java client)."""

from __future__ import annotations

# The system topics that can contain traces.
_SYSTEM_TOPIC = "RMQ_SYS_TRACE_TOPIC"
_SYSTEM_PREFIX = "rmq_sys_"
_SEPARATOR = "%"


def with_namespace(topic: str, namespace: str | None) -> str:
    """The topic's name on the broker: system topics have no namespace, and a namespace is not added twice."""
    if not namespace or topic == _SYSTEM_TOPIC or topic.startswith((_SYSTEM_PREFIX, namespace + _SEPARATOR)):
        return topic
    return f"{namespace}{_SEPARATOR}{topic}"

"""The connection type `rocketmq` and its form.

Airflow learns connection types from installed packages alone: the entry point that names this function is in the
`dist-info` folder beside it, which Python finds where this folder is on `PYTHONPATH`.
"""

from __future__ import annotations

from typing import Any

_TEXT = {"type": ["string", "null"]}


def get_provider_info() -> dict[str, Any]:
    """What Airflow's schema `provider_info` asks for; each field under `conn-fields` is one of the extra."""
    return {
        "package-name": "rocketmq-trace-warehouse",
        "name": "RocketMQ trace warehouse",
        "description": "Apache RocketMQ over its remoting protocol",
        "connection-types": [
            {
                "connection-type": "rocketmq",
                "hook-class-name": "plugins.rocketmq_hook.RocketMQHook",
                "hook-name": "RocketMQ",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema"],
                    "relabeling": {
                        "host": "Nameservers",
                        "port": "Port of nameservers without one",
                        "login": "Access key",
                        "password": "Secret key",
                    },
                    "placeholders": {"host": "10.0.0.5:9876;10.0.0.6:9876", "port": "9876"},
                },
                "conn-fields": {
                    "security_token": {
                        "label": "Security token",
                        "schema": {"type": ["string", "null"], "format": "password"},
                    },
                    "trace_topics": {
                        "label": "Trace topics",
                        "description": "several with a comma; none: RMQ_SYS_TRACE_TOPIC",
                        "schema": _TEXT,
                    },
                    "namespace": {
                        "label": "Namespace",
                        "description": "of the instance that the topics belong to",
                        "schema": _TEXT,
                    },
                    "consumer_group": {
                        "label": "Consumer group",
                        "description": "that pulls name; none: TOOLS_CONSUMER, which every broker has",
                        "schema": _TEXT,
                    },
                    "tls": {"label": "TLS", "schema": {"type": ["boolean", "null"], "default": False}},
                    "tls_verify": {
                        "label": "Check the server's certificate",
                        "schema": {"type": ["boolean", "null"], "default": True},
                    },
                    "tls_ca_file": {
                        "label": "TLS authorities (PEM file)",
                        "description": "none: the system's",
                        "schema": _TEXT,
                    },
                    "tls_cert_file": {"label": "TLS certificate of this client (PEM file)", "schema": _TEXT},
                    "tls_key_file": {"label": "TLS key of this client (PEM file)", "schema": _TEXT},
                },
            }
        ],
    }

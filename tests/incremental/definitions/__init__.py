"""docs/definitions.md in plain Python: the facts and two marts of one cluster, made from its records in one go.

Written from the sentences there, not from the models. Each table is a dictionary from its key to the columns compared.
"""

from __future__ import annotations

from tests.incremental.cluster import Cluster, Rows, present
from tests.incremental.definitions.attempts import attempts
from tests.incremental.definitions.coverage import trace_coverage, untraced_clients
from tests.incremental.definitions.deliveries import dead_letters, deliveries
from tests.incremental.definitions.expectations import due_at, expected_groups
from tests.incremental.definitions.messages import consumer_group_success, message_states, trace_volume
from tests.incremental.definitions.orphans import orphan_rate, orphans
from tests.incremental.definitions.records import of_type
from tests.incremental.definitions.sends import messages_of, sends
from tests.incremental.definitions.transactions import transaction_ends, transactions


def tables(cluster: Cluster) -> dict[str, Rows]:
    """All tables that are compared, by name."""
    found: dict[str, Rows] = {"fct_sends": sends(cluster)}
    messages = messages_of(found["fct_sends"])
    found["fct_consume_attempts"] = attempts(cluster, found["fct_sends"])
    found["fct_deliveries"] = deliveries(cluster, found["fct_sends"], found["fct_consume_attempts"])
    ends = transaction_ends(cluster)
    found["fct_transactions"] = transactions(cluster, messages, ends)
    recalled = {
        present(r["msg_id"]) for r in of_type(cluster, "Recall") if r["success"] and present(r["msg_id"])
    }
    for message in messages.values():
        message["due_at"] = due_at(cluster, message, ends.get(message["msg_id"]))
    expected = expected_groups(cluster, messages, found["fct_consume_attempts"])
    found["orphaned_messages"] = orphans(
        cluster, messages, found["fct_consume_attempts"], ends, recalled, expected
    )
    found["dead_letters"] = dead_letters(cluster, messages, found["fct_deliveries"])
    found["fct_messages"] = message_states(messages, found)
    found["consumer_group_success"] = consumer_group_success(found)
    found["orphan_rate"] = orphan_rate(cluster, messages, expected, found["orphaned_messages"])
    found["trace_volume"] = trace_volume(cluster)
    found["trace_coverage"] = trace_coverage(cluster, messages, found, ends, recalled)
    found["untraced_clients"] = untraced_clients(cluster, found)
    return found

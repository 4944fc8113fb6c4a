"""States, outcomes and causes in words; docs/definitions.md defines them."""

from __future__ import annotations

STATES = {
    "unpublished": "consumed, but no send of it is in the traces",
    "orphaned": "an expected group has not consumed it, and nothing explains why",
    "failed": "a group has given it up, or its listener never returned",
    "open": "not decided yet: a group is working on it, will retry it, or may still receive it",
    "withheld": "its producer has rolled it back, recalled it, or not committed it",
    "untraced": "the traces do not show whether it was consumed",
    "consumed": "every group that received it has consumed it",
}
OUTCOMES = {
    "succeeded": "consumed",
    "in_flight": "the listener is working on it",
    "not_returned": "the listener was called and never returned",
    "retrying": "the last attempt failed; the broker will redeliver it",
    "exhausted": "all attempts failed; the broker has given it up (dead-letter queue)",
}
ATTEMPTS = {
    "success": "success",
    "timeout": "success, but later than the consume timeout",
    "exception": "the listener threw an exception",
    "returned_null": "the listener returned null",
    "failed": "the listener asked for a redelivery",
    "in_flight": "in flight",
    "not_returned": "did not return",
}
CAUSES = {
    "trace_gap": "its consumer records may be in an ingest gap: trace messages that the broker deleted before they were read",
    "rolled_back": "its producer rolled the transaction back",
    "recalled": "its producer recalled it",
    "half_uncommitted": "its transaction is not committed",
    "filtered": "the group's subscription excludes its tag",
    "filter_unknown": "the group's subscription has a condition that the traces cannot evaluate",
    "delayed_not_due": "it is delayed, and not due yet",
    "untraced_batch": "it was sent in a batch; Java clients from 5.3.1 on write no consumer records for such messages",
    "within_grace": "it was published a short time ago",
    "no_traced_group": "no traced group consumed the topic before, and no group is known to read it without a trace",
    "in_flight": "the listener is working on it",
    "not_returned": "the listener was called and never returned",
    "dead_letter": "it is in the group's dead-letter topic, without a trace of its attempts",
    "retrying": "the broker will redeliver it to the group, which has not traced its attempts",
    "skipped": "the group's offset was moved over it while none of its consumers was connected, and none was given it",
    "untraced_consumer": "by its offsets the group has passed it, but its clients, or some of them, write no trace",
    "lost_trace": "the group has passed it, and other records of the group are missing in that hour, too",
    "passed_untraced": "by its offsets the group has passed it, without a trace, although its clients write some",
    "group_deleted": "the group was deleted at the brokers, and had not reached it before",
    "in_backlog": "the group is not known to have reached it by its offsets: it waits in the backlog",
    "backlog_overdue": "the group is not known to have reached it by its offsets, for longer than the backlog limit",
    "broadcasting": "the group consumes in broadcasting mode: the brokers do not know how far its clients are",
    "gone": "the broker had deleted it before it was looked up",
    "filtered_or_lost": "filtered by a subscription that is not known, skipped, in its backlog, lost, or its trace was dropped",
}
# The causes that do not explain the absence, of messages of expected groups.
CAUSES_IN_RATE = {
    *(
        "not_returned",
        "dead_letter",
        "skipped",
        "lost_trace",
        "passed_untraced",
        "backlog_overdue",
        "broadcasting",
    ),
    *("gone", "filtered_or_lost"),
}
# Of a message that no group was expected to consume, where another sentence holds.
CAUSES_WITHOUT_GROUP = {
    "untraced_consumer": "a group reads the topic, by its subscription or its offsets, but its clients write no trace"
}
DECISIONS = {
    "commit": "the producer committed the transaction",
    "rollback": "the producer rolled the transaction back",
    "unknown": "the producer did not know yet",
}

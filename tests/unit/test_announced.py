"""The rule of a trigger over random histories of sends, commits and queries; the broker's part is in tests/rocketmq."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rocketmq.triggers.announced import Announced

HOLD = 100.0
QUEUES = ("a/0", "a/1", "b/0")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.sampled_from(QUEUES), st.integers(1, 5)),
        st.tuples(st.just("commit"), st.sampled_from(QUEUES), st.just(0)),
        st.tuples(st.just("wait"), st.just(""), st.integers(1, 60)),
        st.tuples(st.just("query"), st.just(""), st.just(0)),
    ),
    max_size=40,
)


class Cluster:
    """Queues that are committed whole; every query that is due announces."""

    def __init__(self) -> None:
        self.ends, self.committed = dict.fromkeys(QUEUES, 0), dict.fromkeys(QUEUES, 0)
        self.now = 1000.0
        self.announced = Announced()
        self.events: list[dict[str, range]] = []

    def unread(self) -> dict[str, range]:
        return {queue: range(self.committed[queue], self.ends[queue]) for queue in QUEUES}

    def query(self) -> None:
        unread = self.unread()
        fresh = self.announced.fresh(unread, self.now, HOLD)
        if fresh and not self.announced.is_at_work(unread, self.now, HOLD):
            self.announced = Announced.from_json(self.announced.after(unread, fresh, self.now).to_json())
            self.events.append(fresh)

    def do(self, step: str, queue: str, number: int) -> None:
        if step == "send":
            self.ends[queue] += number
        elif step == "commit":
            self.committed[queue] = self.ends[queue]
        elif step == "wait":
            self.now += number
        else:
            self.query()


@given(STEPS)
def test_each_message_is_announced_once_unless_it_is_committed_before(steps):
    cluster = Cluster()
    for step in steps:
        cluster.do(*step)
    cluster.now += HOLD
    cluster.query()
    for queue in QUEUES:
        offsets = [each for event in cluster.events for each in event.get(queue, ())]
        assert len(offsets) == len(set(offsets))
        assert set(cluster.unread()[queue]) <= set(offsets)


@given(STEPS, st.integers(1, 5))
def test_it_does_not_fire_while_a_run_works(steps, count):
    """Whatever was before: after an event for a queue that was not behind, later messages wait for its commit."""
    cluster = Cluster()
    for step in steps:
        cluster.do(*step)
    for queue in QUEUES:
        cluster.do("commit", queue, 0)
    cluster.query()
    cluster.ends["a/0"] += count
    cluster.query()
    fired = len(cluster.events)
    cluster.ends["a/0"] += 1
    cluster.ends["b/0"] += 1
    cluster.query()
    assert len(cluster.events) == fired
    cluster.committed["a/0"] = cluster.ends["a/0"] - 1
    cluster.query()
    assert cluster.events[fired:] == [
        {queue: range(cluster.ends[queue] - 1, cluster.ends[queue]) for queue in ("a/0", "b/0")}
    ]


def test_a_recreated_queue_is_announced_again_and_a_slave_that_lags_is_not():
    announced = Announced({"a/0": range(0, 9)}, frozenset({"a/0"}), 1000.0)
    shorter = {"a/0": range(0, 3)}
    assert announced.fresh(shorter, 1001.0, HOLD) == shorter
    assert announced.fresh(shorter, 1001.0, HOLD, from_slaves={"a/0"}) == {}
    assert announced.fresh({"a/0": range(0, 9)}, 1001.0, HOLD) == {}


def test_a_queue_that_was_not_asked_keeps_what_was_announced():
    announced = Announced({"a/0": range(0, 9)}, frozenset({"a/0"}), 1000.0)
    unread = {"b/0": range(0, 1)}
    fresh = announced.fresh(unread, 1001.0, HOLD)
    assert fresh == unread
    assert not announced.is_at_work(unread, 1001.0, HOLD)  # it is not waited for
    after = announced.after(unread, fresh, 1001.0)
    assert after.fresh({"a/0": range(0, 10), **unread}, 1002.0, HOLD) == {"a/0": range(9, 10)}

"""The text of an error names its cluster once."""

from __future__ import annotations

from spark_jobs.rocketmq.errors import QueueLocation, of_cluster


def test_the_cluster_is_named_once():
    located = f"{QueueLocation('prod', broker='broker-a')}: it does not answer"
    assert of_cluster("prod", located) == located == "cluster prod, broker broker-a: it does not answer"
    assert of_cluster("prod", ValueError("a secret is missing")) == "cluster prod: a secret is missing"

"""`make run` to its end; `make soak` alone runs this, as the demo runs the same DAGs, and test_up.py kills a `make run`."""

from __future__ import annotations

from sandbox import admin, proof
from sandbox.scenarios import TRACE_TOPICS
from sandbox.traffic import generate
from tests.e2e.world import make, run_variables


def test_make_run(world):
    generate(world.sandbox.namesrv, 20, world.traffic)
    names = ("TRACE_HOME", "TRACE_SETTINGS", "TRACE_SPARK__CONF")
    done = make("run", {name: world.environment[name] for name in names}, *run_variables(world))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "demo: consume success per consumer group and hour" in done.stdout
    proof.proof(world.settings, "demo", admin.trace_offsets(world.sandbox.namesrv, TRACE_TOPICS))

"""The check results of the run of `world`."""

from __future__ import annotations

from deploy import show


def test_the_checks_of_the_pipeline_passed(world):
    """After the runs of `world`: everything but what the traffic does on purpose."""
    results = show.rows(world.settings, "ops.check_results").to_pylist()
    assert {r["check"] for r in results} >= {
        *(
            "offsets_contiguous",
            "raw_offsets_match_data",
            "events_offsets_match_data",
            "raw_is_in_events",
            "ingest_gaps",
        ),
        *("body_errors", "invalid_rate", "dbt_tests", "row_count_drop", "unknown_layouts", "completeness"),
        *("clock_skew", "duplicate_rate", "orphan_rate", "orphans_proven", "group_silent"),
        *("slo_burn_page", "slo_burn_ticket"),
    }
    failed = {r["check"] for r in results if r["passed"] is False and r["class"] != "messaging"}
    assert failed == set()

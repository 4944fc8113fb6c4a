"""Upkeep of the tables: few files, few snapshots, nothing older than it may be. `settings.UPKEEP` is the policy."""

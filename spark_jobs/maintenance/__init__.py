"""TablePolicy of the tables: few files, few snapshots, nothing older than it may be. `settings.TABLE_POLICIES` is the policy."""

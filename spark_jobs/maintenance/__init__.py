"""Maintenance of the tables by policy (`settings.TABLE_POLICIES`): retention, compaction, snapshot expiry, orphan files."""

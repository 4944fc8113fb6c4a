"""Backup, restore and move of an embedded lake: a catalog in SQLite and a warehouse in a folder. See docs/backup.md."""

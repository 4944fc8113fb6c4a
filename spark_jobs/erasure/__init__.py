"""Erase what the warehouse has of one key, group or message, and apply the rule to every later extraction."""

"""Erase what the warehouse has of one key, group or message, and keep it out from then on."""

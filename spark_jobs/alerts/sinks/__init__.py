"""Where notifications go: Alertmanager, and chat, mail and pagers through Apprise."""

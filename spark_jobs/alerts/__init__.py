"""From check results to notifications: which alerts are open, which sinks were notified, and when they are resolved."""

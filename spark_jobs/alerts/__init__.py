"""From results of checks to people: which faults stand, who was told, and that it is over."""

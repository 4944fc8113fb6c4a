"""Build the marts on branches, test them there, publish what passed."""

"""What `make up` costs at rest, and how long after a send the published marts have it."""

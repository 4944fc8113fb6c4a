"""`make soak CHAOS=3600`: faults at random in a running `make up`, judged by their own log and the broker's offsets."""

"""`make bench-lookup`: the look-up of a message, and the serving file that it reads."""

"""`make bench-scale`: what each stage costs in lakes of 1, 5 and 20 M records, and the memory of a large run."""

"""What `make bench` runs: one module a question."""

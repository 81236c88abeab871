"""Fast runtimes: exports to them, and decoding with them."""

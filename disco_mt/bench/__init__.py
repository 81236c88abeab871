"""`disco bench`: how fast each system is, measured fairly."""

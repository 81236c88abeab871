"""`disco serve`: an HTTP API and a page, in front of one or several models."""

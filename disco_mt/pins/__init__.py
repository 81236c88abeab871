"""Pinned words: parse, tokenize, place and score them; one hook into decoding."""

"""Pinned words: parse them, make them tokens, place them, score them; one hook into decoding."""

"""Sequence-level distillation: a teacher's translations in place of a corpus's own."""

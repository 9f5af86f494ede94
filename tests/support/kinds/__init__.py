"""Kinds that tests submit."""

"""Kinds that declare limits; apart from the others, so that only workers that are told to know them."""

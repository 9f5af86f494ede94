"""Kinds that behave badly, for workers that are told of them: TENURE_KINDS=tests.support.kinds,tests.support.stubborn."""

KINDS = "tests.support.kinds,tests.support.stubborn"

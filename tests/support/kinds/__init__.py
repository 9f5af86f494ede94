"""Kinds that only tests know: workers find them through TENURE_KINDS=tests.support.kinds."""

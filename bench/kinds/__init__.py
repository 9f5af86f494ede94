"""The kinds the bench submits, found by TENURE_KINDS=bench.kinds."""

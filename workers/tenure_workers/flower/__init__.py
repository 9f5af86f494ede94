"""Flower as Tenure runs it: `python -m tenure_workers.flower` (which `tenure flower` becomes)."""

"""JSON Schema for classes: what a schema may be, and what it says about a document.

`judge` and what it needs are pure: they read no database, clock or setting, so equal texts give equal verdicts anywhere.
"""

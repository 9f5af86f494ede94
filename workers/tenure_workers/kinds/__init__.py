"""Kinds of this worker, one file each. A new one is a new file; nothing else is edited."""

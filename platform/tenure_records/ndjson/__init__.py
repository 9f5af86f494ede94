"""Classes and objects as newline-delimited JSON: read with an outcome per line, written as a stream."""

from tenure_records.ndjson.exporting import Exported, export
from tenure_records.ndjson.importing import Imported, import_lines
from tenure_records.ndjson.outcomes import Outcome

__all__ = ["Exported", "Imported", "Outcome", "export", "import_lines"]

"""Records: classes of JSON objects, computed fields that readers can always trust, schemas that hold.

Every function takes the caller's own SQLAlchemy Connection and commits nothing.
"""

from tenure_records.classes import RecordClass, create_class, drop_class, ensure_class, get_class, list_classes
from tenure_records.fields import Change, change_field, define_field, drop_field, list_fields
from tenure_records.filters import Filter
from tenure_records.finding import Found, find_objects
from tenure_records.load import LineError, Loaded, load
from tenure_records.objects import Put, Stored, delete_object, put_object, put_objects
from tenure_records.ordering import Sort
from tenure_records.personal import change_personal, define_personal, drop_personal, forget_person, list_personal
from tenure_records.preview import Previewed, preview_data, preview_field
from tenure_records.reading import Object, get_object, get_objects
from tenure_records.rebuild import rebuild, restart_failed
from tenure_records.schemas.activation import activate
from tenure_records.schemas.revisions import Revision, list_revisions, propose_schema
from tenure_records.schemas.showing import SchemaState, show_schema
from tenure_records.schemas.validation import impact, revalidate

__all__ = [
    "Change",
    "Filter",
    "Found",
    "LineError",
    "Loaded",
    "Object",
    "Previewed",
    "Put",
    "RecordClass",
    "Revision",
    "SchemaState",
    "Sort",
    "Stored",
    "activate",
    "change_field",
    "change_personal",
    "create_class",
    "define_field",
    "define_personal",
    "delete_object",
    "drop_class",
    "drop_field",
    "drop_personal",
    "ensure_class",
    "find_objects",
    "forget_person",
    "get_class",
    "get_object",
    "get_objects",
    "impact",
    "list_classes",
    "list_fields",
    "list_personal",
    "list_revisions",
    "load",
    "preview_data",
    "preview_field",
    "propose_schema",
    "put_object",
    "put_objects",
    "rebuild",
    "restart_failed",
    "revalidate",
    "show_schema",
]

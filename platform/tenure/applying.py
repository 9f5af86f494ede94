"""Making the schedules that are there those that a file, or another scheduler, wants: compared first, then in one
transaction, the caller's. Nothing here commits.
"""

from __future__ import annotations

from tenure import defining, schedules
from tenure.caller import AnyConnection, connection_of
from tenure.model.definitions import Plan, Present, ScheduleSpec, Wanted
from tenure.model.definitions import plan as compare
from tenure.model.records import Initiator
from tenure.store import schedules as store

SOURCES = "tenure.schedule_sources"  # entry points: callable(reference, Registry) -> Taken


def plan(connection: AnyConnection, wanted: Wanted, *, prune: bool = False, take: bool = False) -> Plan:
    """What `apply` would do, refused for the same reasons; nothing is written.

    Raises ScheduleKept, and UsageError or KindIsInternal naming the schedule and step that cannot be kept.
    """
    present = {
        one.name: Present(one.spec, one.origin, one.built_in, one.revision) for one in schedules.listing(connection)
    }
    made = compare(wanted, present, prune=prune, take=take)
    for spec in made.added:
        defining.check(spec)
    for change in made.changed:
        defining.check(change.spec, built_in=change.present.built_in)
    return made


def apply(
    connection: AnyConnection, wanted: Wanted, *, initiator: Initiator, prune: bool = False, take: bool = False
) -> Plan:
    """Add, change and (`prune`) remove until what is wanted is there; what was done. Done twice, the second does nothing.

    Appliers wait for each other until their commits. What was made by hand stays so: it is changed, never pruned.
    Raises what `plan` raises, ScheduleIsBuiltIn for other steps of a built-in one, RevisionConflict where somebody else
    changed one meanwhile.
    """
    store.hold_appliers(connection_of(connection))
    made = plan(connection, wanted, prune=prune, take=take)
    for name in made.removed:
        schedules.remove(connection, name)
    for change in made.changed:
        origin = made.origin if take and change.present.origin else None
        schedules.change(
            connection, change.spec, revision=change.present.revision, initiator=initiator, origin=origin
        )  # fmt: skip
    for spec in made.added:
        schedules.add(connection, spec, initiator=initiator, origin=made.origin)
    return made


def exported(connection: AnyConnection, names: list[str], *, origin: str | None = None) -> list[ScheduleSpec]:
    """What is there as what would be wanted: those named, or all (of one origin) but the built-in. Raises NoSuchSchedule."""
    if names:
        return [schedules.get(connection, name).spec for name in dict.fromkeys(names)]
    return [one.spec for one in schedules.listing(connection, origin=origin) if not one.built_in]

"""The times of the escalation ladder, in seconds after the stop. Cooperative, then SQL, then the child, then the main process.

A worker's grace on its platform must be at least T_FINAL and a few seconds.
"""

T_SQL_SHUTDOWN = 2.0  # the page in hand may end before its statement is cancelled
T_CHILD_SHUTDOWN = 5.0  # the child leaves by itself
T_MAIN_SHUTDOWN = 10.0  # the main process ends a child that cannot: C code that holds the GIL
T_SETTLED = 20.0  # the longest T_MAIN of a shutdown, whatever a kind's drain: its end must still be written
T_FINAL = 22.0  # the main process leaves, whatever still hangs
MAIN_AFTER_CHILD = 0.5  # cancel and deadline: the child leaves after the kind's stop_within, main ends it so much later
LAST_JOIN = 2.0  # after T_FINAL: what the last services get to write
SQL_SHARE = 0.5  # cancel and deadline: SQL is cancelled after this share of stop_within

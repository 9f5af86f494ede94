"""The only writers of tasks.state: one module per verb. Each statement moves the row, its history, its activity and
what hangs on it together, carries its guard in the WHERE, and answers what it changed.

CTEs are linked only by `= any(array(select …))`: a join between them lets the planner walk a partial index instead
of the primary key.
"""

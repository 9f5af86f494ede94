"""Cron lines for tests: some chosen for what clocks do at night, the rest drawn with a seed."""

from __future__ import annotations

import random

ZONES = (
    "Australia/Lord_Howe",  # half an hour
    "Africa/Casablanca",  # back for Ramadan
    "Antarctica/Troll",  # two hours
    "Pacific/Apia",  # 30 December 2011 never was
    "America/Santiago",  # a gap at midnight
    "Europe/Oslo",
    "America/New_York",
    "Asia/Kolkata",  # never set
    "America/St_Johns",  # at 00:01 until 2011
    "Pacific/Chatham",  # 45 minutes past
    "America/Havana",  # a fold at one o'clock
    "America/Sao_Paulo",  # a fold that shows the day before again
)
CHOSEN = (
    "*/30 1-2,* * * *",
    "*/15 * * * *",
    "30 * * * *",
    "15,45 0-23 * * *",
    "0 */1 * * 0,6",
    "7 * L * *",
    "30 2 * * *",
    "*/10 2 * * *",
    "0 0 * * *",
    "5 0 * * 0",
    "59 23 * * 6",
    "*/20 0-3 * * *",
    "0 */2 * * *",
    "30 1-23/2 * * *",
    "*/7 1,2,3 * * SUN",
    "0 3 * * MON-FRI,SUN",
    "45 2 1-7 * SUN",
    "15 1 * MAR,APR,OCT,NOV *",
    "1 0-22 * * SUN#1,SUN#2,0L",
    "0 12 30,31 12 *",
    "* * * * *",
)


def lines(count: int) -> list[str]:
    """The chosen ones, then others that are the same in every run."""
    draw = random.Random(20260329)
    made = list(CHOSEN)
    while len(made) < count:
        made.append(" ".join((_minute(draw), _hour(draw), *_days(draw))))
    return made[:count]


def _minute(draw: random.Random) -> str:
    a, b = sorted(draw.sample(range(60), 2))
    return draw.choice(("*", f"*/{draw.randint(2, 29)}", str(a), f"{a},{b}", f"{a}-{b}/{draw.randint(1, 9)}", f"{a}/7"))


def _hour(draw: random.Random) -> str:
    a, b = sorted(draw.sample(range(24), 2))
    early = str(draw.randint(0, 4))
    return draw.choice(
        ("*", "0-23", "*/1", early, f"{early},{b}", f"{a}-{b}", f"*/{draw.randint(2, 6)}", "0-4", "22-23,0-2")
    )


def _days(draw: random.Random) -> tuple[str, str, str]:
    if draw.random() < 0.5:
        return "*", "*", "*"
    day = draw.choice(("*", "*/2", "1-15", "15-31", "L", "LW", "1,2,25-31", f"{draw.randint(1, 28)}"))
    month = draw.choice(("*", "*", "JAN-JUN", "3,4,9-12", "*/2", "FEB"))
    weekday = draw.choice(("*", "*", "SUN", "0,7", "SAT,SUN", "1-5", "*/2", "SUN#1", "SUN#2,SUN#3", "7L", "5-7"))
    return day, month, weekday

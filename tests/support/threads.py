"""Two and more at once: real threads that start together, and what each answered."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

T = TypeVar("T")

TIMEOUT_S = 30.0


def together(*actions: Callable[[], T]) -> list[T]:
    """Run all at the same moment; their answers in order. What one raises is raised here, after all have ended."""
    barrier = Barrier(len(actions))

    def run(action: Callable[[], T]) -> T:
        barrier.wait(TIMEOUT_S)
        return action()

    with ThreadPoolExecutor(len(actions)) as pool:
        futures = [pool.submit(run, action) for action in actions]
    return [future.result() for future in futures]


def race(rounds: int, *runners: Callable[[int], T]) -> list[tuple[T, ...]]:
    """Let the runners meet at a barrier before each round; the answers round by round. A runner that raises breaks
    the barrier, so that nobody waits for it."""
    barrier = Barrier(len(runners))

    def run(runner: Callable[[int], T]) -> Callable[[], list[T]]:
        def all_rounds() -> list[T]:
            answers = []
            try:
                for number in range(rounds):
                    barrier.wait(TIMEOUT_S)
                    answers.append(runner(number))
            except BaseException:
                barrier.abort()
                raise
            return answers

        return all_rounds

    return list(zip(*together(*(run(runner) for runner in runners)), strict=True))

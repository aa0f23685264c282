"""Build pool: processes that build modules, each of them one module after the other.

    for number, compiled in at_once(2, [0, 1, 2], build): ...

pip runs setup.py as a text and not as a module, and a function is given to a process by the name of
its module. So what processes call is here.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

Build = Callable[[int], bool]
_build: Build | None = None  # in a process of the pool


def at_once(jobs: int, numbers: list[int], build: Build) -> Iterator[tuple[int, bool]]:
    """Yields each number with what build() of it has returned, in any order. The first failure ends
    the build and is raised."""
    if jobs == 1:
        for number in numbers:
            yield number, build(number)
        return
    fork = multiprocessing.get_context("fork")  # nothing that is inherited has to be pickled
    with ProcessPoolExecutor(jobs, fork, initializer=_begin, initargs=(build,)) as pool:
        try:
            for built in as_completed([pool.submit(_build_one, number) for number in numbers]):
                yield built.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _begin(build: Build) -> None:
    global _build
    _build = build


def _build_one(number: int) -> tuple[int, bool]:
    assert _build is not None
    return number, _build(number)

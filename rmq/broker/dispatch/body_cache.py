"""Body cache: keeps bodies of answers that are the same for every client, so they are made once.

    bodies.of_version("config", version, make)      made anew when the version has changed
    bodies.of_moment("runtime", make)               made anew when it is older than MOMENT_S

So a client that asks for the whole table of topics a thousand times costs only a copy of it each
time, and the control thread has time for other requests.

Example: request 28 from 60 clients within 200 ms reads the counters, the disk's space and the
oldest message once.
"""

from collections.abc import Callable, Hashable

from rmq.base import clock

MOMENT_S = 0.2


class BodyCache:
    """Owned by the control thread. Keeps the last body of each name."""

    def __init__(self, clock: Callable[[], float] = clock.monotonic) -> None:
        self._clock = clock
        self._of_version: dict[str, tuple[Hashable, bytes]] = {}
        self._of_moment: dict[str, tuple[float, bytes]] = {}

    def of_version(self, name: str, version: Hashable, make: Callable[[], bytes]) -> bytes:
        found = self._of_version.get(name)
        if found is None or found[0] != version:
            found = self._of_version[name] = (version, make())
        return found[1]

    def of_moment(self, name: str, make: Callable[[], bytes]) -> bytes:
        found = self._of_moment.get(name)
        now = self._clock()
        if found is None or now - found[0] >= MOMENT_S:
            found = self._of_moment[name] = (now, make())
        return found[1]

"""RepeatedWarnings: what goes wrong again and again is a warning once, until it goes well.

    warnings = RepeatedWarnings()
    warnings.begin("the queues of orders", error)    # WARNING; DEBUG while it stays the same
    warnings.end("the queues of orders")             # INFO, if there was something

Exceptions of one kind, or with one code, are one reason, whatever their texts.

What is to be looked at once more a second from now fails for minutes where a broker is away or a
right is missing: who reads the log is to see it, and not only it.
"""

from __future__ import annotations

import logging
import threading

log = logging.getLogger("rmq.client")


class RepeatedWarnings:
    """Of one object; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._present: dict[str, set[object]] = {}  # what -> kinds of reasons that were told

    @property
    def is_any(self) -> bool:
        return bool(self._present)

    def begin(self, what: str, why: object, level: int = logging.WARNING) -> None:
        """It goes wrong, for this reason."""
        kind = (type(why), getattr(why, "code", None)) if isinstance(why, Exception) else str(why)
        with self._lock:
            told = self._present.setdefault(what, set())
            if kind in told:
                level = logging.DEBUG
            told.add(kind)
        log.log(level, "%s: %s; it is tried again", what, why)

    def end(self, what: str) -> None:
        """It goes well."""
        if self._present.pop(what, None) is not None:
            log.info("%s: all is well again", what)

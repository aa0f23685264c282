"""RepeatedWarnings: trouble that lasts is logged as a warning once, until it is over.

    warnings = RepeatedWarnings()
    warnings.begin("the queues of orders", error)    # WARNING; DEBUG while it stays the same
    warnings.end("the queues of orders")             # INFO, if there was a warning

Exceptions of one type and with one code count as the same reason, whatever their texts.

Work that is tried again every second fails for minutes if a broker is away or a permission is
missing. The reader of the log must see this trouble, but also everything else.
"""

from __future__ import annotations

import logging
import threading

log = logging.getLogger("rmq.client")


class RepeatedWarnings:
    """The troubles of one object; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._present: dict[str, set[object]] = {}  # what -> kinds of reasons that were logged

    @property
    def is_any(self) -> bool:
        return bool(self._present)

    def begin(self, what: str, why: object, level: int = logging.WARNING) -> None:
        """`what` fails, for the reason `why`."""
        kind = (type(why), getattr(why, "code", None)) if isinstance(why, Exception) else str(why)
        with self._lock:
            told = self._present.setdefault(what, set())
            if kind in told:
                level = logging.DEBUG
            told.add(kind)
        log.log(level, "%s: %s; it is tried again", what, why)

    def end(self, what: str) -> None:
        """`what` succeeds."""
        if self._present.pop(what, None) is not None:
            log.info("%s: all is well again", what)

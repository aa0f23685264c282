"""Descriptors: those of a process: the limit is raised if possible, and shared out at the start.

    share(namesrv, broker)      settings of one or both; logs in one line what it did

The soft limit (often 1,024) is raised to the hard one. Of these descriptors files come first: log
and queue files, threads, one metrics server, `rmq` and brokers that ask. The rest is for clients,
and rmqMaxConnections is lowered to that number. (So is the limit of an address, if it would not
limit anything any more.) A connection beyond the limit is closed at once instead of waiting for
ever, and a client that has asked for nothing makes room for a later one, so that an operator's tool
gets in (cext/net/listener, rmq/serving/listener.py).

Example: with a limit of 64, and name server and broker in one process, there can be 12 clients of
the broker and 4 of the name server. Below LEAST share() raises ConfigError.
"""

from __future__ import annotations

import logging
import resource
from pathlib import Path

from rmq.config import Settings
from rmq.errors import ConfigError

log = logging.getLogger("rmq.system.descriptors")

LEAST = 56  # for a broker's own descriptors, its files, and some clients
BROKER_OWN = 28  # event loops, threads and open log files of a broker
CLIENTS_LEAST = 4
NO_LIMIT = 1 << 30
# Descriptors that the tables of queue files keep if the limit is FULL_LIMIT or more, and in
# proportion fewer below it: see files_kept() in cext/store/queues/queue_files.pyx.
QUEUE_FILES, FULL_LIMIT, FILES_LEAST = (1024, 256, 64), 16384, 4


def raise_limit() -> tuple[int, int]:
    """Returns (soft limit before, soft limit now)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # it is forbidden, or more than the kernel takes
            return soft, soft
    return soft, hard


def open_files_max() -> int:
    """How many files this process may open, after raising its limit; NO_LIMIT where there is
    none."""
    limit = raise_limit()[1]
    return NO_LIMIT if limit == resource.RLIM_INFINITY else limit


def for_clients(limit: int, used: int, has_broker: bool) -> int:
    """How many of `limit` descriptors are left for clients."""
    files = min(limit // 16, 256)
    if has_broker:
        kept = min(limit, FULL_LIMIT)
        files += BROKER_OWN
        files += sum(max(FILES_LEAST, kept * most // FULL_LIMIT) for most in QUEUE_FILES)
    return limit - used - files


def share(namesrv: Settings | None, broker: Settings | None) -> None:
    """Raises the limit, lowers rmqMaxConnections of each server to what is left, and logs it."""
    before, limit = raise_limit()
    left = for_clients(limit, len(list(Path("/proc/self/fd").iterdir())), broker is not None)
    if limit == resource.RLIM_INFINITY:
        left = NO_LIMIT
    if left < CLIENTS_LEAST * 2:
        raise ConfigError(
            f"the limit of open files is {limit}: at least {LEAST} are needed, thousands are usual."
            " Raise it with `ulimit -n` or, in a systemd unit, LimitNOFILE"
        )
    given = []
    reduced = []
    for what, settings in (("name server", namesrv), ("broker", broker)):
        if settings is None:
            continue
        wanted = int(settings.rmqMaxConnections)
        may = left
        if what == "name server" and broker is not None:
            may = min(wanted, max(CLIENTS_LEAST, left // 10))
            left -= may
        if may < wanted:
            settings.set("rmqMaxConnections", str(may))
            reduced.append(f"rmqMaxConnections={wanted}")
            of_address = int(settings.rmqMaxConnectionsPerAddress)
            if of_address >= may:  # it would not limit anything: 0 makes it three quarters
                settings.set("rmqMaxConnectionsPerAddress", "0")
                reduced.append(f"rmqMaxConnectionsPerAddress={of_address}")
        given.append(f"{min(may, wanted)} clients of the {what}")
    raised = f" (raised from {before})" if before != limit else ""
    text = f"at most {limit} open files{raised}: {' and '.join(given)}" if given else (
        f"at most {limit} open files{raised}"
    )  # fmt: skip
    if reduced:
        log.warning(
            "%s, less than %s; raise the limit (ulimit -n, LimitNOFILE)",
            text, " and ".join(dict.fromkeys(reduced)),
        )  # fmt: skip
    else:
        log.info("%s", text)

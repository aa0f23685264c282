"""Slave start: what a slave does before and after its store is opened.

    if not await bootstrapped(settings, stop): return  its log begins where the master's does
    core.open()
    follow(core, settings)                          between open() and start(): it appends nothing

For a broker that is no slave both do nothing.
"""

import asyncio
from typing import Any

from rmq.broker.replication.bootstrap import bootstrap, bootstrap_controlled
from rmq.broker.replication.role import is_controlled, is_slave
from rmq.config import Settings


async def bootstrapped(settings: Settings, stop: asyncio.Event) -> bool:
    """Whether the store may be opened. False: `stop` was set while waiting for the master."""
    if is_controlled(settings):
        work = bootstrap_controlled(settings)
    elif is_slave(settings):
        work = bootstrap(settings)
    else:
        return True
    joining = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((joining, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not joining.done():
            return False
        joining.result()
        return True
    finally:
        for each in (joining, stopping):
            each.cancel()
        await asyncio.gather(joining, stopping, return_exceptions=True)


def follow(core: Any, settings: Settings) -> None:
    """Makes the core a slave's. Under a controller every broker starts as a slave, and its queues
    may contain records that will have to be cut."""
    if is_controlled(settings):
        core.demote()
        core.set_unconfirmed()
    elif is_slave(settings):
        core.demote()

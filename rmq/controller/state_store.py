"""State store: where broker sets are kept, and which controller leads.

    await store.start(own)      from now on it stands for election; is_leader(), leader()
    found, revision = await store.read("broker-a")
    await store.write("broker-a", after, revision)      False: it was changed in between

read() and write() succeed only if this controller leads at the moment at which they take effect;
otherwise both raise NotLeaderError. A decision is a read, a pure function (decisions.py) and a
write at the revision that was read; if the write fails, the decision is made anew.

    EtcdStore   etcd_store.py: any number of controllers, of which one leads
    FileStore   file_store.py: one controller, on one disk, which always leads; no other takes over
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from rmq.controller.broker_set import BrokerSet
from rmq.errors import RmqError


class NotLeaderError(RmqError):
    """Another controller leads, or nobody does at present."""


class StateStoreError(RmqError):
    """The store cannot be read or written now; the text names cause and remedy."""


class Controller(msgspec.Struct, frozen=True):
    """One of the controllers. `name` is unique among them."""

    name: str
    address: str  # host:port


class StateStore(Protocol):
    async def start(self, own: Controller) -> None:
        """Begins to stand for election; NotLeaderError never, StateStoreError when unusable."""

    async def stop(self) -> None:
        """Gives leadership back."""

    def is_leader(self) -> bool:
        """Whether this controller took itself for the leader a moment ago; this is no proof."""

    async def leader(self) -> Controller | None: ...

    async def members(self) -> list[Controller]:
        """All running controllers, by name, as known lately: brokers ask for them, and the answer
        does not wait for the store."""

    async def names(self) -> list[str]:
        """The names of all broker sets."""

    async def read(self, name: str) -> tuple[BrokerSet | None, int]:
        """The broker set and its revision, as of a moment within this call at which this controller
        led."""

    async def write(self, name: str, after: BrokerSet | None, revision: int) -> bool:
        """Replaces (None: removes) the set, durably; False when its revision is another one."""

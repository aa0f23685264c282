"""Askers: whether servers know who asks, and whether they want to know it at all.

    is_let_in(Cluster(namesrv, account=alice))          her password is right, whatever she may do
    is_let_in(Cluster(namesrv, account=STRANGER))       everybody is: there are no accounts

What a server says of the signature counts, not whether the account may ask what is asked.
"""

from __future__ import annotations

import secrets

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import BrokerEntry, ClusterView
from rmq.errors import RemoteError, RmqError, UnreachableError
from rmq.format.signature import Credentials

# How refusals of who asks end, among those of rmq.errors.ACCESS_REMEDIES.
_NOT_KNOWN = dict.fromkeys(
    ("username cannot be null.", "is not found.", "is disabled.", "check signature failed."), ""
)
STRANGER = Credentials("no-account-of-this-name", secrets.token_urlsafe(16))


def is_unknown_asker(error: RmqError) -> bool:
    """Whether it says that a server does not know who asked."""
    return isinstance(error, RemoteError) and error.of_access(_NOT_KNOWN) is not None


def is_let_in(cluster: ClusterView) -> bool:
    """Asked of a name server, and of the first broker that answers. UnreachableError: none does."""
    try:
        entries = cluster.brokers()
    except RemoteError as error:
        return not is_unknown_asker(error)
    missed: UnreachableError | None = None
    for entry in entries:
        for address in entry.addresses.values():
            try:
                admin.runtime_info(cluster, BrokerEntry(entry.name, entry.cluster, {0: address}))
                return True
            except UnreachableError as error:
                missed = error
            except RemoteError as error:
                return not is_unknown_asker(error)
    raise missed or UnreachableError("no broker is registered: nobody can say who you are")

"""Other cluster: a second cluster in one command, with the account and TLS of its context.

    other = OtherCluster(Context("10.0.0.9:9876", credentials="bob.json", tls=True))
    with other.cluster() as target: admin.create_topic(target, ..)
    Producer(.., **other.asker())

The command's own account and TLS are for the first cluster; the second one never sees them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rmq.cli.account_options import credentials_in
from rmq.cli.context_file import Context
from rmq.cli.main import variables
from rmq.client.blocking import credentials, encryption
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.connection import Connection
from rmq.client.blocking.transport import SocketTransport
from rmq.errors import ConfigError
from rmq.operations.client_keywords import client_keywords

if TYPE_CHECKING:
    from rmq.client.parameters.keywords import ClientKeywords


class OtherCluster:
    """ConfigError: the context's file of credentials has no account."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._credentials = None
        if context.credentials is not None:
            self._credentials = credentials_in(Path(context.credentials))
            if self._credentials is None:
                raise ConfigError(f"{context.credentials} has no accessKey and secretKey")

    def cluster(self) -> Cluster:
        return Cluster(self.context.namesrv, SocketTransport(self._dial))

    def asker(self) -> ClientKeywords:
        """Name servers, account and TLS of this cluster, for a client with an engine of its own."""
        with self._asking():
            given = client_keywords()
        given["namesrv_addr"] = self.context.namesrv
        return given

    def _dial(self, address: str) -> Connection:
        with self._asking():
            return Connection(address)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        said = self.context.account() | self.context.encryption()
        with variables(said), encryption.forgotten(), credentials.instead(self._credentials):
            yield

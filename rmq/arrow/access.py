"""Access: how servers are reached: name servers, account, TLS. Spark pickles it to the executors.

    access = Access.of(options)
    with access.cluster() as cluster: cluster.route("orders")

An account signs every request (rmq/format/signature.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rmq.arrow.options import Options
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.connection import Connection
from rmq.client.blocking.transport import SocketTransport
from rmq.client.connection.replicas import Replicas
from rmq.codes import ResponseCode
from rmq.errors import RemoteError
from rmq.format import remoting
from rmq.format.client_tls import ClientTls, TlsOptions
from rmq.format.signature import Credentials

Answer = TypeVar("Answer")


def client_tls(
    is_on: bool,
    ca_file: str | None,
    verify: bool,
    cert_file: str | None,
    key_file: str | None,
    key_password: str | None,
) -> ClientTls | None:
    """None: without TLS. Names in certificates are not compared, as brokers have addresses only."""
    if not is_on:
        return None
    return ClientTls(ca_file, verify, cert_file, key_file, key_password, verify_name=False)


@dataclass(frozen=True)
class Access:
    nameserver: str
    access_key: str | None = None
    secret_key: str | None = None
    security_token: str | None = None
    tls: ClientTls | None = None  # None: plain

    def __repr__(self) -> str:
        return f"Access({self.nameserver})"

    @classmethod
    def of(cls, options: Options) -> Access:
        return cls(
            options.nameserver, options.access_key, options.secret_key, options.security_token,
            client_tls(
                options.tls, options.tls_ca_file, options.tls_verify, options.tls_cert_file,
                options.tls_key_file, options.tls_key_password,
            ),
        )  # fmt: skip

    def cluster(self, replicas: Replicas | None = None) -> GuardedCluster:
        return GuardedCluster(self, replicas)

    @property
    def credentials(self) -> Credentials | None:
        if self.access_key is None or self.secret_key is None:
            return None
        return Credentials(self.access_key, self.secret_key, self.security_token)

    def sign(self, fields: Mapping[str, Any], body: bytes = b"") -> dict[str, str]:
        """The fields as texts, with the account's three when there is an account."""
        texts = remoting.field_texts(fields)
        credentials = self.credentials
        return texts if credentials is None else credentials.sign(texts, body)


class GuardedConnection(Connection):
    """A connection that signs what it sends and speaks TLS when the options say so."""

    _tls_options = TlsOptions("tls=true", "tlsCaFile", "tlsCertFile", "tlsVerify=false")

    def __init__(self, address: str, access: Access) -> None:
        self._access = access
        super().__init__(address)
        self.credentials = access.credentials

    @property
    def _tls(self) -> ClientTls | None:
        return self._access.tls

    @property
    def socket(self) -> Any:
        return self._socket


class GuardedCluster(Cluster):
    """A Cluster whose connections are GuardedConnections."""

    def __init__(self, access: Access, replicas: Replicas | None = None) -> None:
        sockets = SocketTransport(lambda address: GuardedConnection(address, access))
        super().__init__(access.nameserver, sockets, replicas)

    def connect(self, address: str) -> GuardedConnection:
        connection = super().connect(address)
        assert isinstance(connection, GuardedConnection)
        return connection

    def if_known(self, question: Callable[[], Answer]) -> Answer | None:
        """The answer to a question about a topic; None when the topic does not exist.

        UnreachableError when no broker is registered: while a broker restarts, its topics are
        unknown, too. It registers them together with itself, so an answer that is asked for after
        some broker was seen counts.
        """
        try:
            return question()
        except RemoteError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
        self.some_broker()
        try:
            return question()
        except RemoteError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
        return None

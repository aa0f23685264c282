from cext.net.tls import TlsContext

class TlsClientContext:
    def __init__(
        self,
        trusted: str | None,
        verifies: bool,
        certificate: str | None,
        key: str | None,
        password: str | None,
    ) -> None: ...

class TlsStream:
    wants_write: bool
    def __init__(self, fd: int, context: TlsContext | TlsClientContext, serves: bool) -> None: ...
    def handshake(self) -> bool | None: ...
    def receive(self, room: int) -> bytes | None: ...
    def send(self, given: bytes) -> int | None: ...

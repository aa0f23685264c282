TICKET_KEY_BYTES: int

class TlsContext:
    def __init__(
        self, certificate: str, key: str, password: str | None, trusted: str | None, asks: str
    ) -> None: ...
    def set_ticket_keys(self, keys: bytes) -> None: ...

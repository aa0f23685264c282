class TlsContext:
    def __init__(
        self, certificate: str, key: str, password: str | None, trusted: str | None, asks: str
    ) -> None: ...

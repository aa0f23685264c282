from typing import final

@final
class Signer:
    access_key: bytes
    def __new__(cls, access_key: bytes, secret_key: bytes) -> Signer: ...

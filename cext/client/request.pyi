from typing import Any

from cext.client.reply import Reply

def encode_request(
    code: int,
    fields: dict[str, Any] | None = None,
    body: bytes = b"",
    flag: int = 0,
    opaque: int = 0,
    remark: str | None = None,
) -> bytes: ...
def encode_answer(
    request: Reply,
    code: int = 0,
    fields: dict[str, Any] | None = None,
    body: bytes = b"",
    remark: str | None = None,
) -> bytes: ...

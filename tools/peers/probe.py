"""Probe: asks a server one question of the remoting protocol, without any client library.

Frame:  length 4 | type 1 + header length 3 | JSON header | body        (length excludes itself)

    >>> code, fields, body = ask(("127.0.0.1", 9876), 105, {"topic": "TBW102"})
    >>> code                        # 0 when a broker has registered, 17 before
    0

The peers and the tests use it to see when a server is ready. It deliberately does not use rmq's own
codec, so that a mistake there cannot hide itself.
"""

from __future__ import annotations

import base64
import hmac
import itertools
import json
import os
import socket
import ssl
import struct
import time
from typing import Any

GET_ROUTE = 105
_opaque = itertools.count(1)


def _read_exactly(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        piece = connection.recv(count - len(parts))
        if not piece:
            raise ConnectionError("closed in the middle of a frame")
        parts += piece
    return bytes(parts)


def _connected(address: tuple[str, int], timeout: float) -> socket.socket:
    """A connection; by TLS if the environment has RMQ_TLS=1, with any certificate."""
    connection = socket.create_connection(address, timeout=timeout)
    connection.settimeout(timeout)
    if os.environ.get("RMQ_TLS") != "1":
        return connection
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(connection)


def _signed(fields: dict[str, str], body: bytes) -> dict[str, str]:
    key, secret = os.environ.get("RMQ_ACCESS_KEY"), os.environ.get("RMQ_SECRET_KEY", "")
    if key is None:
        return fields
    fields = {**fields, "AccessKey": key}
    content = "".join(fields[name] for name in sorted(fields)).encode() + body
    signature = base64.b64encode(hmac.digest(secret.encode(), content, "sha1")).decode()
    return {**fields, "Signature": signature}


def ask(
    address: tuple[str, int],
    code: int,
    fields: dict[str, str] | None = None,
    body: bytes = b"",
    timeout: float = 3.0,
) -> tuple[int, dict[str, Any], bytes]:
    """Sends one request and waits for its answer: (code, whole header, body). The request is signed
    if the environment has RMQ_ACCESS_KEY, and goes by TLS if it has RMQ_TLS=1."""
    opaque = next(_opaque)
    fields = _signed(fields or {}, body)
    header = {
        "code": code,
        "language": "OTHER",
        "version": 409,
        "opaque": opaque,
        "flag": 0,
        "extFields": fields,
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    with _connected(address, timeout) as connection:
        frame = struct.pack(">II", 4 + len(text) + len(body), len(text)) + text + body
        connection.sendall(frame)
        (length,) = struct.unpack(">I", _read_exactly(connection, 4))
        answer = _read_exactly(connection, length)
    header_bytes = struct.unpack(">I", answer[:4])[0] & 0xFFFFFF
    parsed = json.loads(answer[4 : 4 + header_bytes])
    if parsed["opaque"] != opaque:
        raise ConnectionError(f"asked {opaque}, answered {parsed['opaque']}")
    return parsed["code"], parsed, answer[4 + header_bytes :]


def answers(address: tuple[str, int], timeout: float = 1.0) -> bool:
    """Whether a remoting server answers at all (any code will do)."""
    try:
        ask(address, GET_ROUTE, {"topic": "rmq_probe"}, timeout=timeout)
    except (OSError, ValueError):
        return False
    return True


def has_route(name_server: tuple[str, int], topic: str, broker_address: str = "") -> bool:
    """Whether the name server knows the topic, at that broker address if one is given."""
    try:
        code, _, body = ask(name_server, GET_ROUTE, {"topic": topic})
    except (OSError, ValueError):
        return False
    return code == 0 and broker_address.encode() in body


def wait_until(condition: Any, seconds: float, what: str, pause: float = 0.05) -> None:
    """Polls `condition()` until it is true; the TimeoutError says what was waited for."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(pause)

"""Nobody asks the kernel to encrypt, even if the machine's openssl.cnf asks for it in all programs.

Method: both sides of a connection in a process of its own, under a library that reports
setsockopt(TCP_ULP), and with a configuration that turns kTLS on. That the configuration works is
shown by Python's ssl, which does ask in the same process. The reason: docs/design/tls.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.certificates import Authority
from support.faults import compile_shim
from support.source_tree import ROOT

SOURCE = ROOT / "tests" / "support" / "socket_options" / "socket_options.c"
CONFIGURATION = """
openssl_conf = all
[all]
ssl_conf = ssl
[ssl]
system_default = every
[every]
Options = KTLS
"""
PROGRAM = """
import socket, ssl, sys, threading
from cext.net.tls import TlsContext
from cext.net.tls_stream import TlsClientContext, TlsStream

certificate, key, authority = sys.argv[1:]

def connected():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return socket.create_connection(listening.getsockname()), listening.accept()[0]

def shake(stream):
    while not stream.handshake():
        pass

ours, theirs = connected()
server = TlsStream(theirs.fileno(), TlsContext(certificate, key, None, None, "none"), True)
client = TlsStream(ours.fileno(), TlsClientContext(authority, True, None, None, None), False)
serving = threading.Thread(target=shake, args=(server,))
ours.setblocking(False), theirs.setblocking(False)
serving.start()
shake(client)
serving.join()
print("the replicas' is made", file=sys.stderr, flush=True)

ours, theirs = connected()
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
serving = threading.Thread(target=context.wrap_socket, args=(theirs,), kwargs={"server_side": True})
serving.start()
ssl.create_default_context(cafile=authority).wrap_socket(ours, server_hostname="localhost")
serving.join()
"""


@pytest.fixture(scope="module")
def telling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_shim(tmp_path_factory.mktemp("options"), SOURCE)


def test_no_stream_asks_the_kernel_to_encrypt(tmp_path: Path, telling: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.pair("server")
    configuration = tmp_path / "openssl.cnf"
    configuration.write_text(CONFIGURATION)
    environment = {
        **os.environ, "OPENSSL_CONF": str(configuration), "PYTHONPATH": str(ROOT),
        "LD_PRELOAD": " ".join((os.environ.get("LD_PRELOAD", ""), str(telling))).strip(),
    }  # fmt: skip
    words = [sys.executable, "-c", PROGRAM, str(pair.certificate), str(pair.key),
             str(authority.certificate)]  # fmt: skip
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ours, _, pythons = done.stderr.partition("the replicas' is made\n")
    assert "TCP_ULP" not in ours
    if "TCP_ULP tls" not in pythons:
        pytest.skip("this machine's OpenSSL asks for it in no case")

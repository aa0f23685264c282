"""Smoke: the rmq that is installed takes a message and gives it back, in the clear and by TLS.

    python tools/smoke.py       with the Python of an environment that has rmq, outside a checkout

It starts `rmq standalone` on free ports of the loopback, with its store in a folder that is removed
afterwards, and prints how long each step took. When a step fails it prints why, and exits with 1.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

RMQ = str(Path(sys.executable).with_name("rmq"))
# The broker makes its own certificate, and clients without TLS are served, too.
TLS = ("--set", "tls.server.mode=permissive", "--set", "tls.test.mode.enable=true")
BY_TLS = {"RMQ_TLS": "1", "RMQ_TLS_VERIFY": "0"}
ADDRESS = re.compile(r"name server (\S+?),")
BODY = "hello from a wheel"
DEADLINE_S = 300


class SmokeError(Exception):
    pass


def command(*words: str, **variables: str) -> str:
    done = subprocess.run(
        [RMQ, *words],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env={**os.environ, **variables},
    )
    if done.returncode != 0:
        raise SmokeError(f"rmq {' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def send_and_consume(address: str, topic: str, variables: Mapping[str, str]) -> None:
    command("send", topic, BODY, "-n", address, **variables)
    lines = command("consume", topic, "--json", "-n", address, **variables).splitlines()
    bodies = [json.loads(line)["body"] for line in lines]
    if bodies != [BODY]:
        raise SmokeError(f"{topic}: sent {BODY!r}, consumed {bodies}")


def by_the_python_client(address: str) -> None:
    from rmq import Message, Producer

    with Producer("smoke", namesrv_addr=address) as producer:
        producer.send(Message("python", BODY))
    lines = command("consume", "python", "--json", "-n", address).splitlines()
    if [json.loads(line)["body"] for line in lines] != [BODY]:
        raise SmokeError(f"the Python client's message: {lines}")


def smoke(folder: Path) -> None:
    began = time.monotonic()

    def tell(what: str) -> None:
        print(f"{time.monotonic() - began:6.2f} s  {what}", flush=True)

    words = ["standalone", "--store", str(folder / "store"), "--port", "0", "--namesrv-port", "0"]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [RMQ, *words, *TLS], stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert server.stdout is not None
        found = ADDRESS.search(server.stdout.readline())
        if found is None:
            raise SmokeError(f"the broker is not ready\n{(folder / 'log').read_text()}")
        tell("the broker is ready")
        send_and_consume(found[1], "clear", {})
        tell("the first message was consumed")
        send_and_consume(found[1], "secret", BY_TLS)
        tell("another one by TLS")
        by_the_python_client(found[1])
        tell("and one of the Python client")
    finally:
        server.terminate()
        code = server.wait(DEADLINE_S)
        if server.stdout is not None:
            server.stdout.close()
    if code != 0:
        raise SmokeError(f"the broker ended with {code}\n{(folder / 'log').read_text()}")
    tell("the broker has stopped")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="rmq-smoke-") as name:
        try:
            smoke(Path(name))
        except SmokeError as error:
            sys.exit(f"smoke: {error}")

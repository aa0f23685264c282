"""Cluster: the processes of the demo: name server, etcd, controllers, brokers of one name.

    cluster = DemoCluster(Path("demo"), replicas=3)
    cluster.start(print)            each line says what was started
    cluster.namesrv                 "127.0.0.1:23876"
    cluster.brokers[1]              by its id: broker 1 registers first, and so has id 1

With TLS (by_tls), name server, controllers and brokers serve only clients that use it, and brokers
copy each other's log by TLS. All of them show the same certificate, signed by an authority that is
made for this cluster. Only the connections between controllers and etcd, on loopback, are plain.

With etcd there are two controllers, and any process may be killed except etcd, of which there is
only one here. Without etcd one controller keeps its state in a file.
"""

from __future__ import annotations

import shlex
import shutil
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rmq.demo.ports import free_port
from rmq.errors import ConfigError
from rmq.system.child import Child

NAME = "broker-a"
START_S = 60.0


class DemoCluster:
    """Used by the main thread."""

    def __init__(
        self, directory: Path, replicas: int, pairs: Sequence[str] = (), *, by_tls: bool = False
    ) -> None:
        """`pairs`: more settings of the brokers, key=value. ConfigError: the directory belongs to
        something else, or (by_tls) nothing is installed that can make certificates."""
        self.directory = directory
        _make_empty(directory)
        self.authority = directory / "tls" / "authority.pem" if by_tls else None
        self._shared = _words(_certified(self.authority) if self.authority is not None else ())
        self._pairs = _words((*pairs, *(["rmqReplicaTls=enforcing"] if by_tls else ())))
        self._logs = directory / "logs"
        self._logs.mkdir()
        self.namesrv = f"127.0.0.1:{free_port()}"
        self.others: list[Child] = [self._namesrv()]
        self.has_etcd = shutil.which("etcd") is not None
        self._etcd = ""
        if self.has_etcd:
            self.others.append(self._etcd_member(free_port(), free_port()))
        self.controllers = []
        for number in range(1, 3 if self.has_etcd else 2):
            self.controllers.append(f"127.0.0.1:{free_port()}")
            self.others.append(self._controller(number, self.controllers[-1]))
        self.addresses = {
            each: f"127.0.0.1:{free_port(below=2, above=1)}" for each in range(1, replicas + 1)
        }
        self.brokers = {key: self._broker(key, where) for key, where in self.addresses.items()}

    def start(self, say: Callable[[str], None]) -> None:
        for child in (*self.others, *self.brokers.values()):
            child.start()
            if child.name == "etcd":
                child.wait_ready(START_S, lambda: _answers(self._etcd))
            else:
                child.wait_ready(START_S)
            say(f"{child.name} runs: pid {child.pid}")

    def stop(self) -> None:
        """Stops all processes, brokers first. The order among brokers does not matter."""
        for child in reversed((*self.others, *self.brokers.values())):
            child.stop()

    # ---- commands

    def _namesrv(self) -> Child:
        files = self.directory / "namesrv"
        return self._child(
            "namesrv", "namesrv", "--port", self.namesrv.rpartition(":")[2],
            "--set", f"kvConfigPath={files / 'kvConfig.json'}",
            "--set", f"configStorePath={files / 'namesrv.properties'}",
        )  # fmt: skip

    def _etcd_member(self, client: int, peer: int) -> Child:
        self._etcd = f"127.0.0.1:{client}"
        clients, peers = f"http://{self._etcd}", f"http://127.0.0.1:{peer}"
        command = [
            "etcd", "--name", "n1", "--data-dir", str(self.directory / "etcd"),
            "--listen-client-urls", clients, "--advertise-client-urls", clients,
            "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
            "--initial-cluster", f"n1={peers}", "--log-level", "error",
        ]  # fmt: skip
        return Child("etcd", command, self._logs)

    def _controller(self, number: int, address: str) -> Child:
        files = self.directory / f"controller-{number}"
        state = ("--etcd", f"http://{self._etcd}") if self.has_etcd else ("--store", str(files))
        return self._child(
            f"controller-{number}", "controller", "--port", address.rpartition(":")[2], *state,
            "--set", f"configStorePath={files / 'controller.properties'}",
        )  # fmt: skip

    def _broker(self, number: int, address: str) -> Child:
        return self._child(
            f"broker-{number}", "broker", "--store", str(self.directory / f"broker-{number}"),
            "--port", address.rpartition(":")[2], "-n", self.namesrv,
            "--controller", ";".join(self.controllers), "--set", f"brokerName={NAME}", *self._pairs,
        )  # fmt: skip

    def _child(self, name: str, *arguments: str) -> Child:
        command = [sys.executable, "-m", "rmq", *arguments, *self._shared]
        return Child(name, command, self._logs)

    def option(self) -> str:
        """The options with which other commands find this cluster."""
        found = f"-n {shlex.quote(self.namesrv)}"
        trusted = self.authority
        return found if trusted is None else f"{found} --tls-ca {shlex.quote(str(trusted))}"


def _words(pairs: Iterable[str]) -> list[str]:
    return [word for pair in pairs for word in ("--set", pair)]


def _certified(authority: Path) -> list[str]:
    """Makes an authority and a certificate that it has signed; returns the settings of servers that
    show that certificate."""
    from rmq.setup.tls_files import certificate_files, client_settings, server_settings, write_new

    write_new(authority.parent, certificate_files(["localhost", "127.0.0.1"]))
    return [*server_settings(authority.parent, "enforcing"), *client_settings(str(authority))]


def _make_empty(directory: Path) -> None:
    """Empties the directory if an earlier demo made it; any other directory must be empty."""
    mark = directory / "rmq-demo"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            if not mark.exists():
                raise ConfigError(f"{directory} is not empty, nor of a demo: give another --dir")
            for path in directory.iterdir():
                if path != mark:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        mark.touch()
    except OSError as error:
        raise ConfigError(f"{directory} cannot be used: {error.strerror or error}") from None


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True

"""Network: hosts for processes of a test, whose links can be cut, one way or both, and slowed down.

    with Network(["a", "b", "clients"]) as network:
        Popen(network.hosts["a"].command([...]))        # listens at network.hosts["a"].address
        with network.inside("clients"): ...     # sockets that this thread opens in the block
        network.drop("a", "b")                          # what a sends to b does not come
        network.cut([["a", "clients"], ["b"]])          # both ways, between the groups
        network.heal()

Each host is a network namespace with one address on a bridge. The bridge is in a namespace of its
own, so nothing of this network is seen outside. A link is cut in the sender's neighbour table: its
frames go to a hardware address that no host has. As with a dead port of a switch, neither side gets
an error. This needs no packet filter in the kernel. A slow host has a process between its port and
the bridge (slow_link.py), which needs no netem.

Names begin with rmqha and the process id, so the next start removes what a killed test has left
behind. Root and iproute2 are required; missing() says which of them is missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

PREFIX = "rmqha"
NAMESPACES = Path("/run/netns")
SWEEPING = Path("/run/rmqha.lock")  # one run sweeps at a time: a name exists until it is removed
CLONE_NEWNET = 0x40000000
NOBODY = "02:00:00:00:00:fe"
SLOW_LINK = Path(__file__).with_name("slow_link.py")


def missing() -> str:
    """Why there can be no network here; "" when there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need ip (iproute2)"
    return ""


@dataclass(frozen=True)
class Host:
    """Where a process runs. LOCAL is this machine, without a namespace."""

    name: str
    address: str
    namespace: str = ""
    hardware: str = ""
    port: str = ""  # the host's port of the bridge

    def command(self, words: Sequence[str]) -> list[str]:
        """The command that runs these words on the host, in the process that it is given."""
        # Not `ip netns exec`: that makes a namespace of mounts as well, in which file systems stay
        # mounted that other tests unmount (tests/support/loop_disk.py).
        inside = ["nsenter", f"--net={NAMESPACES / self.namespace}"] if self.namespace else []
        return [*inside, *words]


LOCAL = Host("local", "127.0.0.1")


def ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def sweep() -> list[str]:
    """Removes the namespaces that killed tests have left behind, and returns their names."""
    with SWEEPING.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return _swept()


def _swept() -> list[str]:
    left = []
    for path in NAMESPACES.glob(f"{PREFIX}*") if NAMESPACES.is_dir() else ():
        owner = path.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            try:
                _remove(path.name)
            except OSError:
                if path.exists():
                    raise
                continue  # another process has removed it meanwhile
            left.append(path.name)
    return left


def _remove(namespace: str) -> None:
    for pid in ip("netns", "pids", namespace).split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    ip("netns", "delete", namespace)


class Network:
    def __init__(self, names: Sequence[str]) -> None:
        sweep()
        self._head = f"{PREFIX}{os.getpid()}-"
        self._hub = f"{self._head}hub"
        self.hosts = {
            name: Host(name, f"10.213.7.{number}", f"{self._head}{name}",
                       f"02:00:00:00:00:{number:02x}", f"port{number}")
            for number, name in enumerate(names, 1)
        }  # fmt: skip
        self._slow: dict[str, subprocess.Popen[bytes]] = {}  # by host

    def __enter__(self) -> Network:
        try:
            ip("netns", "add", self._hub)
            ip("-n", self._hub, "link", "add", "bridge", "type", "bridge")
            ip("-n", self._hub, "link", "set", "bridge", "up")
            for host in self.hosts.values():
                self._connect(host)
            self.heal()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for process in self._slow.values():
            _end(process)
        self._slow.clear()
        for namespace in [*(host.namespace for host in self.hosts.values()), self._hub]:
            if (NAMESPACES / namespace).exists():
                _remove(namespace)

    def _connect(self, host: Host) -> None:
        ip("netns", "add", host.namespace)
        ip("-n", host.namespace, "link", "set", "lo", "up")
        ip("-n", self._hub, "link", "add", host.port, "type", "veth", "peer", "name", "eth0",
           "address", host.hardware, "netns", host.namespace)  # fmt: skip
        ip("-n", self._hub, "link", "set", host.port, "master", "bridge", "up")
        ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", "eth0")
        ip("-n", host.namespace, "link", "set", "eth0", "up")

    # ---- links

    def heal(self) -> None:
        """Lets every host reach every other one, at once."""
        for one, other in permutations(self.hosts.values(), 2):
            self._reach(one, other, other.hardware)

    def drop(self, sender: str, receiver: str) -> None:
        """What the sender sends does not reach the receiver; the way back is open."""
        self._reach(self.hosts[sender], self.hosts[receiver], NOBODY)

    def separate(self, one: str, other: str) -> None:
        """Neither host reaches the other."""
        self.drop(one, other)
        self.drop(other, one)

    def cut(self, groups: Sequence[Sequence[str]]) -> None:
        """Hosts only reach those in a group with them. A host in two groups is a bridge."""
        for one, other in permutations(self.hosts, 2):
            together = any(one in group and other in group for group in groups)
            if not together:
                self.drop(one, other)

    def _reach(self, one: Host, other: Host, hardware: str) -> None:
        ip("-n", one.namespace, "neigh", "replace", other.address, "lladdr", hardware, "dev",
           "eth0", "nud", "permanent")  # fmt: skip

    def delay(self, name: str, milliseconds: int) -> None:
        """All that the host sends arrives so much later; 0: at once again."""
        host = self.hosts[name]
        slow, far = f"{host.port}slow", f"{host.port}far"
        if (before := self._slow.pop(name, None)) is not None:
            _end(before)
            ip("-n", self._hub, "link", "delete", slow)
        if not milliseconds:
            ip("-n", self._hub, "link", "set", host.port, "master", "bridge")
            return
        ip("-n", self._hub, "link", "add", slow, "type", "veth", "peer", "name", far)
        ip("-n", self._hub, "link", "set", slow, "up")
        ip("-n", self._hub, "link", "set", far, "master", "bridge", "up")
        ip("-n", self._hub, "link", "set", host.port, "nomaster")
        words = [sys.executable, "-I", str(SLOW_LINK), host.port, slow, str(milliseconds)]
        hub = Host("hub", "", self._hub)
        self._slow[name] = process = subprocess.Popen(hub.command(words), stdout=subprocess.PIPE)
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise OSError(f"{SLOW_LINK} carries nothing")

    # ---- this process as a host

    @contextlib.contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Sockets that this thread, and threads that it starts, open in the block are the
        host's."""
        with (
            open("/proc/thread-self/ns/net", "rb") as outside,
            (NAMESPACES / self.hosts[name].namespace).open("rb") as there,
        ):
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(outside.fileno())


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET):
        error = ctypes.get_errno()
        raise OSError(error, f"setns: {os.strerror(error)}")

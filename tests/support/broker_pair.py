"""Broker pair: a broker with its name server, killed and started again at the same addresses.

pair = Pair(tmp_path)
pair.kill()
pair.start()
"""

from pathlib import Path

from support.broker_process import start_broker

from rmq.demo.ports import free_port

SMALL = (
    "--set", f"mappedFileSizeCommitLog={32 << 20}",
    "--set", "osPageCacheBusyTimeOutMills=60000",  # a busy disk may be slow to make the next file
)  # fmt: skip


class Pair:
    """A broker that can be killed and started again at its addresses."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self.options = options
        self.places = ["--port", str(free_port()), "--namesrv-port", str(free_port())]
        self.start()
        self.namesrv = self.broker.namesrv

    def kill(self) -> None:
        """Kills the broker. Harmless if it is dead already."""
        self.broker.process.kill()
        self.broker.process.wait()

    def start(self, *options: str) -> None:
        """options: in addition to those that it always has."""
        given = [*SMALL, *self.places, *self.options, *options]
        self.broker = start_broker(self.directory, given)

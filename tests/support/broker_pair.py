"""A broker with its name server that is killed and started again at the same addresses, for tests.

pair = Pair(tmp_path)
pair.kill()
pair.start()
"""

from pathlib import Path

from support.broker_process import start_broker

from rmq.demo.ports import free_port

SMALL = (
    "--set", f"mappedFileSizeCommitLog={32 << 20}",
    "--set", "osPageCacheBusyTimeOutMills=60000",  # until a busy disk has made the next file
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
        """Also twice."""
        self.broker.process.kill()
        self.broker.process.wait()

    def start(self, *options: str) -> None:
        """options: beside those it always has."""
        given = [*SMALL, *self.places, *self.options, *options]
        self.broker = start_broker(self.directory, given)

"""A broker with its name server that is killed and started again at the same addresses, for tests.

pair = Pair(tmp_path)
pair.kill()
pair.start()
"""

from pathlib import Path

from support.broker_process import start_broker

SMALL = ("--set", f"mappedFileSizeCommitLog={32 << 20}")


class Pair:
    """A broker that can be killed and started again at its addresses."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.broker = start_broker(directory, SMALL)
        self.namesrv = self.broker.namesrv
        self.again = ["--port", str(self.broker.port), "--namesrv-port",
                      self.namesrv.rpartition(":")[2]]  # fmt: skip

    def kill(self) -> None:
        self.broker.process.kill()
        self.broker.process.wait()

    def start(self) -> None:
        self.broker = start_broker(self.directory, [*SMALL, *self.again])

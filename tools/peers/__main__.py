"""Start Apache RocketMQ 5.5.0 by hand, until Ctrl-C.

python -m tools.peers --folder apache --port 10911 --set flushDiskType=SYNC_FLUSH
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

from tools.peers.apache import ApacheStandalone


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.peers", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="store, logs, configuration")
    parser.add_argument("--namesrv-port", type=int, default=9876)
    parser.add_argument("--port", type=int, default=10911, help="listenPort of the broker")
    parser.add_argument("--heap", default="1g", help="heap of the broker")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    settings = dict(pair.split("=", 1) for pair in options.set)
    server = ApacheStandalone(
        options.folder, options.namesrv_port, options.port, settings, heap=options.heap
    )
    # SIGTERM has the same effect as Ctrl-C, so that the children are stopped, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server.start()
        print(f"ready: broker pid {server.broker.pid}", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        server.stop()


if __name__ == "__main__":
    main()

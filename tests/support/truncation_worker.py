"""A follower in a process of its own that cuts its log: to be killed at each step of it.

    python -m support.truncation_worker STORE OFFSET '{"mappedFileSizeCommitLog": 1048576}'

Prints "begins" before, "done" when the log is cut and the broker serves again, then stops cleanly.
With the offset -1 it cuts nothing and prints where the log ends.
"""

import asyncio
import json
import sys
from pathlib import Path

from support.followers import follower


async def main() -> None:
    one = await follower(Path(sys.argv[1]), **json.loads(sys.argv[3]))
    offset = int(sys.argv[2])
    if offset < 0:
        print(one.core.log_range()[1], flush=True)
    else:
        print("begins", flush=True)
        await one.truncate(offset)
        print("done", flush=True)
    await one.stop()


if __name__ == "__main__":
    asyncio.run(main())

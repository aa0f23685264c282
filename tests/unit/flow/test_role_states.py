"""Goal: a core's role is one of five states, and only an event that may follow changes it.

Method: each event from each state, in a child process of its own, which says the facts of the state
after it, or ends. That a core calls the events when they happen is shown by test_roles and
test_switch_stream.
"""

import json
import subprocess
import sys

from support.source_tree import ROOT
from support.waiting import HANG_S

EVENTS = ["lead", "follow", "stream_began", "stream_ended", "doubt", "confirm"]
# The events that lead to each state, and its facts: slave, writable, its master's log comes,
# unconfirmed.
STATES = {
    "master": ([], (False, True, False, False)),
    "slave": (["follow"], (True, False, False, False)),
    "following": (["follow", "stream_began"], (True, False, True, False)),
    "unconfirmed": (["follow", "doubt"], (True, False, False, True)),
    "following unconfirmed": (["follow", "doubt", "stream_began"], (True, False, True, True)),
}
ENDS = "the process ends"
# The state after each event, in the order of EVENTS. An event that asks for the present role
# changes nothing.
AFTER = {
    "master": ["master", "slave", ENDS, ENDS, ENDS, ENDS],
    "slave": ["master", "slave", "following", ENDS, "unconfirmed", ENDS],
    "following": [ENDS, "following", ENDS, "slave", "following unconfirmed", ENDS],
    "unconfirmed": [
        "master", "unconfirmed", "following unconfirmed", ENDS, "unconfirmed", ENDS,
    ],
    "following unconfirmed": [
        ENDS, "following unconfirmed", ENDS, "unconfirmed", "following unconfirmed", "following",
    ],
}  # fmt: skip

# Each walk runs in a fork: a new interpreter for each would take half a minute.
CHILD = """
import json, os, resource, sys
from cext.testing.role_probe import role_after
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
found = []
for events in json.loads(sys.argv[1]):
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, json.dumps(role_after(events)).encode())
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 1000)
    os.close(reader)
    found.append((os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), json.loads(said or "null")))
print(json.dumps(found))
"""
SIGABRT = -6


def outcomes(walks: list[list[str]]) -> tuple[list[str], str]:
    """The state after each walk, or ENDS if the process ended; and what the processes printed."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(walks)],
        cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=True,
    )  # fmt: skip
    names = {facts: name for name, (_, facts) in STATES.items()}
    found = []
    for code, said in json.loads(done.stdout):
        assert code == (0 if said else SIGABRT), done.stderr
        found.append(names[tuple(said.values())] if said else ENDS)
    return found, done.stderr


def test_each_event_leads_from_each_state_where_it_may_or_ends_the_process() -> None:
    walks = [[*way, event] for way, _ in STATES.values() for event in EVENTS]
    found, said = outcomes(walks)
    count = len(EVENTS)
    rows = [found[at : at + count] for at in range(0, len(found), count)]
    assert dict(zip(STATES, rows, strict=True)) == AFTER
    lines = [line for line in said.splitlines() if line.startswith("rmq: broken invariant: a role")]
    assert len(lines) == found.count(ENDS)

"""How descriptors are shared out: what lowers which limit, and what is reported about it.

Method: a process of its own, whose limit is lowered for good. That these limits close clients'
connections: fault/test_few_descriptors.py.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, logging, resource, sys
from rmq.config import load_properties
from rmq.system.descriptors import share
logging.basicConfig(format="%(levelname)s %(message)s")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
settings = load_properties(None, json.loads(sys.argv[1]))
share(None, settings)
print(settings.rmqMaxConnections, settings.rmqMaxConnectionsPerAddress)
"""


@pytest.mark.parametrize(
    ("of_address", "stays", "is_said"),
    [("0", "0", False), ("4", "4", False), ("1000", "0", True)],
)
def test_a_limit_of_an_address_that_would_be_none_is_lowered_too(
    of_address: str, stays: str, is_said: bool
) -> None:
    given = {"rmqMaxConnections": "2000", "rmqMaxConnectionsPerAddress": of_address}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(given)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    connections, left = done.stdout.split()
    assert 4 < int(connections) < 64
    assert left == stays
    assert "WARNING" in done.stderr and "less than rmqMaxConnections=2000" in done.stderr
    assert ("rmqMaxConnectionsPerAddress=1000" in done.stderr) == is_said

"""The NUMA node of a range of memory, and its lock, on whatever machine this is."""

import errno
import resource
import subprocess
import sys

import pytest

from cext.base.status import Status
from cext.testing.memory_probe import region_touched

MIB = 1 << 20
DEFAULT, PREFERRED = 0, 1


def test_a_range_prefers_the_node_it_was_given() -> None:
    preferred, _, _, policy, nodes = region_touched(MIB, 0)
    assert (preferred, policy, nodes) == (Status.OK, PREFERRED, [0])


def test_no_preference_is_the_default_policy() -> None:
    preferred, _, _, policy, nodes = region_touched(MIB, -1)
    assert (preferred, policy, nodes) == (Status.OK, DEFAULT, [])


def test_a_node_that_is_not_there_is_an_error_of_the_kernel() -> None:
    preferred, _, error, policy, _ = region_touched(MIB, 1023)
    assert (preferred, error, policy) == (Status.IO_ERROR, errno.EINVAL, DEFAULT)


@pytest.mark.parametrize("node", [-2, 1024, 2**31 - 1])
def test_a_number_that_is_no_node_is_refused_before(node: int) -> None:
    assert region_touched(MIB, node)[0] == Status.MALFORMED


def test_a_range_is_locked_within_the_limit_and_refused_beyond() -> None:
    """In a process that may not lock more than its limit, whichever user runs the tests."""
    script = (
        "import os, resource\n"
        "from cext.testing.memory_probe import region_touched\n"
        f"resource.setrlimit(resource.RLIMIT_MEMLOCK, ({MIB}, {MIB}))\n"
        "if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        f"print(region_touched({MIB} // 2, -1, True)[1], region_touched(2 * {MIB}, -1, True)[1:3])"
    )
    _, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if hard != resource.RLIM_INFINITY and hard < MIB:
        pytest.skip("the limit of this session is smaller still")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == f"0 ({int(Status.IO_ERROR)}, {errno.ENOMEM})", done.stderr

"""Goal: a replica whose reactor is stuck stops leading, and joins again when the reactor goes on.

Method: that of test_controlled_role.py; the replica is told that it is stuck. How it is noticed:
test_reactor_watch.py.
"""

from __future__ import annotations

import pytest
from support.role_harness import Harness, on_harness

pytestmark = pytest.mark.still_clock


@on_harness
async def test_a_master_whose_reactor_is_stuck_is_replaced_and_follows_when_it_goes_on(
    on: Harness,
) -> None:
    one, two = await on.two_in_sync()
    one.standing_s = 20
    await on.passing(lambda: "has taken no turn for 20 s" in one.role.problem)
    leases = len(one.leases)
    one.standing_s = 27
    await on.until(two, "lead", 2, [2])
    assert len(one.leases) == leases, "it asked for no other"
    assert "for 20 s" in one.role.problem
    one.standing_s = 0
    await on.until(one, "follow", 2, two.address, 2)
    assert one.role.problem == ""


@on_harness
async def test_one_whose_reactor_goes_on_before_another_is_elected_leads_on(on: Harness) -> None:
    one = on.start(1)
    await on.until(one, "lead", 1, [1])
    one.standing_s = 20
    await on.passing(lambda: "has taken no turn" in one.role.problem)
    leases = len(one.leases)
    one.standing_s = 0
    await on.passing(lambda: len(one.leases) > leases and not one.role.problem)
    assert one.role.known is not None and one.role.known.master_id == 1

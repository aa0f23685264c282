"""Stop command: it runs while the rest goes on, and only an exit code other than 0 is an error."""

import pytest
from support.waiting import wait_until

from rmq.errors import RmqError
from rmq.takeover.stop_command import StopCommand


def test_one_that_fails_is_told_and_one_that_runs_or_went_well_is_not(tmp_path):
    gate, done = tmp_path / "gate", tmp_path / "done"
    runs = StopCommand(f"until [ -e {gate} ]; do sleep 0.01; done; touch {done}")
    runs.check()
    gate.touch()
    wait_until(done.exists)
    fails = StopCommand("exit 3")

    def failed() -> bool:
        try:
            fails.check()
        except RmqError as error:
            return "code 3" in str(error)
        return False

    wait_until(failed)
    runs.check()


def test_a_command_that_is_not_there_fails():
    command = StopCommand("exec /nowhere/mqshutdown 2>/dev/null")

    def failed() -> bool:
        try:
            command.check()
        except RmqError:
            return True
        return False

    wait_until(failed)
    with pytest.raises(RmqError, match="code 127"):
        command.check()

"""Interrupts: a Ctrl-C whose exception Python threw away is raised at the next look, and only
once."""

import signal
import weakref

import pytest

from rmq.demo.interrupts import Interrupts


class _Thing:
    pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_that_comes_in_a_finalizer_is_raised_at_the_next_look():
    with Interrupts() as interrupts:
        thing = _Thing()
        callback = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
        del thing  # the callback runs here, and Python drops what it raises
        assert callback() is None
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
        interrupts.check()


def test_the_handler_from_before_is_back_afterwards():
    before = signal.getsignal(signal.SIGINT)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before

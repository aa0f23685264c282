"""Command line: `rmq` as a user calls it, but in this process, without another interpreter.

    done = rmq("topic", "list", "-n", broker.namesrv)
    done.returncode, done.stdout, done.stderr

It is for commands that ask a server and end. Commands that serve, take signals or are killed need a
process of their own. So do commands that run beside other threads of the test, because the streams
are those of the whole process.
"""

import contextlib
import io
import sys
from subprocess import CompletedProcess
from unittest.mock import patch

from support.log_before import log_as_before

from rmq.cli.main import main
from rmq.client.blocking import credentials, encryption
from rmq.config import load_properties
from rmq.serving import identity

PLAIN = load_properties(None, {})


class _Stream(io.TextIOWrapper):
    """Like a pipe: not a terminal, with a buffer for bytes."""

    def __init__(self, text: str = "") -> None:
        super().__init__(io.BytesIO(text.encode()), encoding="utf-8", write_through=True)

    def text(self) -> str:
        raw = self.buffer
        assert isinstance(raw, io.BytesIO)
        return raw.getvalue().decode()


def rmq(*words: str, text: str = "") -> CompletedProcess[str]:
    """Runs the command. text: its standard input."""
    out, err, code = _Stream(), _Stream(), 0
    with (
        log_as_before(),
        patch.object(sys, "stdin", _Stream(text)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main(list(words))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        finally:  # resets what a command sets for its whole process
            identity.take(lambda: None, PLAIN)
            credentials.use(None)
            encryption.forget()
    return CompletedProcess(words, code, out.text(), err.text())

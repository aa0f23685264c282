"""An editable install, used from another folder than the tree: what is found there without
PYTHONPATH.

That Spark finds its source there is in tests/spark/test_readme_block.py.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.editable_install import editable_install, without_paths
from support.waiting import HANG_S

pytest.importorskip("mypy", reason="needs the extra: pip install -e .[dev]")

PROGRAM = """\
from rmq import Message, Producer

producer = Producer("orders")
reveal_type(producer.send(Message("greetings", b"hello")))
Message(7, b"hello")
"""
TYPES = [
    'orders.py:4: note: Revealed type is "cext.client.result.SendResult"',
    'orders.py:5: error: Argument 1 to "Message" has incompatible type "int"; expected "str"',
]


def test_mypy_and_python_find_rmq_with_its_types(tmp_path: Path) -> None:
    """An import hook, which setuptools puts there without package-dir in pyproject.toml, serves
    Python alone: to mypy rmq was missing."""
    python = editable_install(tmp_path / "install")
    elsewhere = tmp_path / "work"
    elsewhere.mkdir()
    (elsewhere / "orders.py").write_text(PROGRAM)

    def said(words: list[str | Path]) -> list[str]:
        done = subprocess.run(words, cwd=elsewhere, env=without_paths(python), text=True,
                              capture_output=True, timeout=HANG_S)  # fmt: skip
        assert done.stderr == ""
        return done.stdout.splitlines()

    where = said([python, "-c", "import pyspark_rmq, rmq; print(rmq.__file__)"])
    assert where == [os.fspath(tmp_path / "install" / "checkout" / "rmq" / "__init__.py")]
    mypy = [sys.executable, "-m", "mypy", "--cache-dir", tmp_path / "cache"]
    found = said([*mypy, "--python-executable", python, "orders.py"])
    assert [line.partition("  [")[0] for line in found[:-1]] == TYPES
    assert found[-1].startswith("Found 1 error in 1 file")

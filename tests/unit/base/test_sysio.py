"""Goal: the wrappers of system calls transfer everything, report errno beside the status, and never
retry.

Method: real files in a temporary directory. Not shown here: EINTR and short writes (tests/fault, by
the shim).
"""

import errno
import os

from cext.base.status import Status
from cext.testing import base_probe


def test_write_at_writes_every_byte_where_it_was_told(tmp_path):
    path = tmp_path / "f"
    with path.open("w+b") as f:
        assert base_probe.write_all(f.fileno(), b"hello", 7) == (Status.OK, 0, 5)
    assert path.read_bytes() == bytes(7) + b"hello"


def test_a_bad_descriptor_is_io_error_with_its_errno():
    assert base_probe.write_all(-1, b"x", 0) == (Status.IO_ERROR, errno.EBADF, 0)


def test_allocate_sets_the_exact_size_and_reads_as_zeros(tmp_path):
    path = tmp_path / "f"
    with path.open("w+b") as f:
        assert base_probe.allocate(f.fileno(), 10000) == (Status.OK, 0)
    assert path.read_bytes() == bytes(10000)


def test_zero_range_clears_only_its_range_and_keeps_the_size(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * 20000)
    with path.open("r+b") as f:
        assert base_probe.zero_range(f.fileno(), 5000, 9000) == (Status.OK, 0)
    assert path.read_bytes() == b"x" * 5000 + bytes(9000) + b"x" * 6000


def test_zero_range_works_where_the_file_system_only_punches_holes():
    path = f"/dev/shm/rmq-zero-range-{os.getpid()}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        os.unlink(path)
        os.pwrite(fd, b"x" * 20000, 0)
        assert base_probe.zero_range(fd, 5000, 9000) == (Status.OK, 0)
        assert os.pread(fd, 20001, 0) == b"x" * 5000 + bytes(9000) + b"x" * 6000
    finally:
        os.close(fd)


def test_syncing_a_directory_that_is_not_there_is_an_error(tmp_path):
    assert base_probe.sync_directory(bytes(tmp_path)) == (Status.OK, 0)
    missing = bytes(tmp_path / "missing")
    assert base_probe.sync_directory(missing) == (Status.IO_ERROR, errno.ENOENT)

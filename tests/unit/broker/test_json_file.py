"""Config files survive crashes and damage. The files that a crash leaves stand for the crash.

Not shown here: what a power cut does to the disk's own cache.
"""

import errno
import json
import os
import threading
from pathlib import Path

import pytest

from rmq.base.json_file import JsonFile
from rmq.errors import StoreCorruptError, StoreError


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "config" / "a.json")
    assert file.load() is None
    file.save({"x": {"1": 2}})
    assert JsonFile(file.path).load() == {"x": {"1": 2}}


def test_the_content_before_is_kept_as_backup(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "a.json")
    file.save({"n": 1})
    file.save({"n": 2})
    assert JsonFile(file.backup_path).load() == {"n": 1}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "a.json.bak"]


@pytest.mark.parametrize("damage", [b"", b'{"n":', b"\0" * 64, b"[1]", b"\xff\xfe{"])
def test_a_damaged_file_gives_way_to_its_backup(tmp_path: Path, damage: bytes) -> None:
    file = JsonFile(tmp_path / "a.json")
    file.save({"n": 1})
    file.save({"n": 2})
    file.path.write_bytes(damage)
    assert file.load() == {"n": 1}


def test_a_missing_file_gives_way_to_its_backup(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "a.json")
    file.save({"n": 1})
    file.save({"n": 2})
    file.path.unlink()
    assert file.load() == {"n": 1}


def test_two_damaged_copies_are_an_error_that_names_both(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "a.json")
    file.path.write_bytes(b"{")
    file.backup_path.write_bytes(b"")
    with pytest.raises(StoreCorruptError, match=r"a\.json.*a\.json\.bak"):
        file.load()


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    """Makes reads of files of this name fail with this error; file modes would not stop root."""
    read_bytes = Path.read_bytes

    def refusing(path: Path) -> bytes:
        if path.name == name:
            raise OSError(number, os.strerror(number), str(path))
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refusing)


@pytest.mark.parametrize("name", ["a.json", "a.json.bak"])
def test_a_file_that_may_not_be_read_is_not_taken_for_a_damaged_one(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = JsonFile(tmp_path / "a.json", lost="nothing that matters")
    file.save({"n": 1})
    file.save({"n": 2})
    if name == "a.json.bak":  # with a damaged main file the .bak is needed
        file.path.write_bytes(b"{")
    with monkeypatch.context() as patched:
        refuse(patched, name, errno.EACCES)
        with pytest.raises(StoreError, match=f"{name} cannot be read: Permission denied"):
            file.load()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.json", "a.json.bak"]
    assert file.load() == {"n": 1 if name == "a.json.bak" else 2}


@pytest.mark.parametrize("number", [errno.EIO, errno.EBADMSG, errno.EUCLEAN])
def test_what_the_disk_cannot_read_gives_way_to_its_backup(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = JsonFile(tmp_path / "a.json")
    file.save({"n": 1})
    file.save({"n": 2})
    refuse(monkeypatch, "a.json", number)
    assert file.load() == {"n": 1}
    assert (tmp_path / "a.json.damaged").exists()


def test_an_empty_file_never_becomes_the_backup(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "a.json")
    file.save({"n": 1})
    file.save({"n": 2})
    file.path.write_bytes(b"")
    file.save({"n": 3})
    assert JsonFile(file.backup_path).load() == {"n": 1}
    assert file.load() == {"n": 3}


def test_no_flipped_bit_gives_another_content(tmp_path: Path) -> None:
    new, old = {"offsetTable": {"t@g": {"0": 70, "1": 8}}}, {"offsetTable": {"t@g": {"0": 69}}}
    file = JsonFile(tmp_path / "a.json")
    file.save(old)
    file.save(new)
    whole = file.path.read_bytes()
    given_way = 0
    for bit in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        file.path.write_bytes(bytes(flipped))
        found = file.load()
        assert found is not None
        # A flipped bit in the checksum's own name only makes it a member that nobody knows.
        assert found["offsetTable"] in (new["offsetTable"], old["offsetTable"]), f"bit {bit}"
        given_way += found == old
    assert given_way > len(whole) * 8 - 8 * len("rmqChecksum") - 1


def test_a_file_whose_checksum_was_removed_by_hand_is_believed(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "a.json")
    file.save({"n": 1})
    content = json.loads(file.path.read_bytes())
    assert content.pop("rmqChecksum")
    file.path.write_text(json.dumps({**content, "n": 7}))
    assert file.load() == {"n": 7}


def test_what_a_crash_left_half_written_is_ignored(tmp_path: Path) -> None:
    file = JsonFile(tmp_path / "a.json")
    file.save({"n": 1})
    (tmp_path / "a.json.tmp").write_bytes(b'{"n": 2')
    assert file.load() == {"n": 1}
    file.save({"n": 3})
    assert file.load() == {"n": 3}


def test_files_of_apache_with_bare_integer_keys_load(tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    path.write_text('{\n\t"offsetTable":{\n\t\t"t@g":{0:7,1:8\n\t\t}\n\t}\n}')
    assert JsonFile(path).load() == {"offsetTable": {"t@g": {"0": 7, "1": 8}}}


def test_a_save_and_a_settle_at_once_leave_both_copies_whole(tmp_path: Path) -> None:
    """A save and a settle at the same time must leave both copies whole, although both make the
    .bak anew through a temporary file of the same name."""
    file = JsonFile(tmp_path / "a.json")
    file.save({"n": 0})
    rounds, failed, are_two = range(1, 200), [], []
    both = threading.Barrier(2)

    def settle() -> None:
        for _ in rounds:
            both.wait()
            try:
                file.settle()
            except OSError as error:
                failed.append(error)
            both.wait()

    settling = threading.Thread(target=settle)
    settling.start()
    for number in rounds:
        both.wait()
        try:
            file.save({"n": number})
        except OSError as error:
            failed.append(error)
        both.wait()
        are_two.append(file.path.stat().st_ino != file.backup_path.stat().st_ino)
    settling.join()
    assert not failed and all(are_two)
    assert file.read()["n"] == rounds[-1]
    assert JsonFile(file.backup_path).read()["n"] in rounds[-2:]

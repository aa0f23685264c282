"""Output: generated files, printed or written.

    shown(files)                  all of them; if there are several, each with a heading
    shown(files, "broker.conf")   that file alone
    write(files, folder, ..)      below the folder; other files of these names are refused

A secret file is never shown. It is written with its own mode (0600 by default), and kept if it
exists: if a password changed with each call, those who know the first one would be shut out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rmq.errors import ConfigError

PUBLIC_MODE = 0o644


class GeneratedFile(msgspec.Struct, frozen=True):
    name: str  # path below the folder
    text: str
    is_secret: bool = False
    mode: int = 0o600  # of a secret


def shown(files: Sequence[GeneratedFile], only: str | None = None) -> str:
    """The text to print; `only`: the text of that file alone. ConfigError: there is no such
    file."""
    public = [file for file in files if not file.is_secret]
    if only is not None:
        found = [file for file in public if file.name == only]
        if not found:
            names = ", ".join(file.name for file in public)
            raise ConfigError(f"there is no file {only}; the files are {names}")
        return found[0].text
    if len(public) == 1:
        return public[0].text
    return "\n".join(f"==> {file.name} <==\n{file.text}" for file in public)


def write(files: Sequence[GeneratedFile], folder: Path, *, overwrite: bool) -> list[str]:
    """Writes the files, and returns the names of those that were not there already with the same
    text. Secrets belong together: ConfigError if some of them exist and some do not."""
    secrets = [file.name for file in files if file.is_secret]
    lost = [name for name in secrets if not (folder / name).exists()]
    if lost and len(lost) < len(secrets):
        kept = [name for name in secrets if name not in lost]
        raise ConfigError(
            f"{folder} has no {', '.join(lost)}, but other secrets that belong to it. Delete these "
            f"to make all of them again: {', '.join(kept)}"
        )
    new = [file for file in files if _is_new(file, folder)]
    other = [file.name for file in new if (folder / file.name).exists()]
    if other and not overwrite:
        raise ConfigError(
            f"{folder} has another {', '.join(other)}: choose another folder, or add --overwrite"
        )
    try:
        for file in new:
            _write_one(file, folder / file.name)
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: {error.strerror}") from None
    return [file.name for file in new]


def _is_new(file: GeneratedFile, folder: Path) -> bool:
    path = folder / file.name
    if file.is_secret:
        return not path.exists()
    try:
        return path.read_text("utf-8") != file.text
    except (OSError, UnicodeDecodeError):
        return True


def _write_one(file: GeneratedFile, path: Path) -> None:
    if not file.is_secret:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, "utf-8")
        path.chmod(PUBLIC_MODE)  # despite the umask, because containers read it as another user
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as out:
        os.fchmod(out.fileno(), file.mode)
        out.write(file.text)

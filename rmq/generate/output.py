"""Output: generated files, printed or written.

    shown(files)                  all of them; a heading of each where there are several
    shown(files, "broker.conf")   that one alone
    write(files, folder, ..)      below the folder, where there are no others of these names

What is secret is never shown; it is written with mode 0600, and kept where it is there: a password
that changes with each call would shut out who knows the first one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rmq.errors import ConfigError

PUBLIC_MODE = 0o644


class GeneratedFile(msgspec.Struct, frozen=True):
    name: str  # from the folder
    text: str
    is_secret: bool = False
    mode: int = 0o600  # of a secret


def shown(files: Sequence[GeneratedFile], only: str | None = None) -> str:
    """What is to be printed; `only`: of the file of that name. ConfigError: there is none."""
    public = [file for file in files if not file.is_secret]
    if only is not None:
        found = [file for file in public if file.name == only]
        if not found:
            names = ", ".join(file.name for file in public)
            raise ConfigError(f"no file {only}: there are {names}")
        return found[0].text
    if len(public) == 1:
        return public[0].text
    return "\n".join(f"==> {file.name} <==\n{file.text}" for file in public)


def write(files: Sequence[GeneratedFile], folder: Path, *, overwrite: bool) -> list[str]:
    """Names of what was written, not of what is there as it is to be. Secrets belong together: all
    of them are there, or none."""
    secrets = [file.name for file in files if file.is_secret]
    lost = [name for name in secrets if not (folder / name).exists()]
    if lost and len(lost) < len(secrets):
        raise ConfigError(
            f"{folder} has no {', '.join(lost)}, which belong to {', '.join(secrets)}: remove the "
            "others to make all anew"
        )
    new = [file for file in files if _is_new(file, folder)]
    other = [file.name for file in new if (folder / file.name).exists()]
    if other and not overwrite:
        raise ConfigError(
            f"{folder} has another {', '.join(other)}: choose another folder, or --overwrite"
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
        path.chmod(PUBLIC_MODE)  # whatever the umask is: containers read them as somebody else
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as out:
        os.fchmod(out.fileno(), file.mode)
        out.write(file.text)

"""Context file: named clusters, each with its name servers, its account, and its TLS.

    $XDG_CONFIG_HOME/rmq/contexts.json, or ~/.config/rmq/contexts.json
    {"current": "prod", "contexts": {"prod": {"namesrv": "10.0.0.5:9876", "tls": true}}}

A context reaches a command as variables of the environment: NAMESRV_ADDR, RMQ_CREDENTIALS, RMQ_TLS
and so on. The first of these that is given counts: options of the command; --context; RMQ_CONTEXT;
NAMESRV_ADDR, with which no account and no TLS of a context is used; the context in use. Commands
that serve use no context.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rmq.base import atomic_file
from rmq.errors import ConfigError

VARIABLE = "RMQ_CONTEXT"
MODE = 0o600


class Context(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Paths are absolute."""

    namesrv: str
    credentials: str | None = None  # a file, as --credentials takes it
    tls: bool = False
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_verify: bool = True

    def account(self) -> dict[str, str]:
        """The variables that choose an account. An empty one counts as not set, whatever the
        environment says. RMQ_SECRET_KEY is not among them, because --user needs it, too."""
        return {"RMQ_CREDENTIALS": self.credentials or "", "RMQ_ACCESS_KEY": ""}

    def encryption(self) -> dict[str, str]:
        return {
            "RMQ_TLS": "1" if self.tls else "",
            "RMQ_TLS_CA": self.tls_ca or "",
            "RMQ_TLS_CERT": self.tls_cert or "",
            "RMQ_TLS_KEY": self.tls_key or "",
            "RMQ_TLS_VERIFY": "" if self.tls_verify else "0",
        }


class Contexts(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    current: str | None = None
    contexts: dict[str, Context] = {}

    def get(self, name: str) -> Context:
        """The context of this name. ConfigError: there is none."""
        found = self.contexts.get(name)
        if found is None:
            there = ", ".join(sorted(self.contexts)) or "none; add one: `rmq context add`"
            raise ConfigError(f"there is no context {name}; known contexts: {there}")
        return found


def contexts_path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "rmq" / "contexts.json"


def read_contexts() -> Contexts:
    """The contexts of the file; none if it is missing. ConfigError: the file is damaged."""
    path = contexts_path()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Contexts)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return Contexts()  # also for a process that may not read its home directory
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path}: {error}; correct the file, or remove it") from None


def write_contexts(contexts: Contexts) -> None:
    path = contexts_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = msgspec.json.format(msgspec.json.encode(contexts), indent=2)
        new = path.with_name(path.name + ".new")
        atomic_file.write_synced(new, text + b"\n", MODE)
        atomic_file.rename_synced(new, path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None


def chosen_environment(given: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables to set for a command. A context that was asked for by name sets all of them.
    The context in use sets the account only if the environment has none, and TLS only if the
    environment does not have RMQ_TLS."""
    name = given or environment.get(VARIABLE)
    if name:
        found = read_contexts().get(name)
        return {"NAMESRV_ADDR": found.namesrv, **found.account(), **found.encryption()}
    if environment.get("NAMESRV_ADDR"):
        return {}  # another cluster: nothing of the context in use belongs there
    contexts = read_contexts()
    if contexts.current is None:
        return {}
    found = contexts.get(contexts.current)
    chosen = {"NAMESRV_ADDR": found.namesrv}
    if not environment.get("RMQ_ACCESS_KEY") and not environment.get("RMQ_CREDENTIALS"):
        chosen |= found.account()
    if not environment.get("RMQ_TLS"):
        chosen |= found.encryption()
    return chosen

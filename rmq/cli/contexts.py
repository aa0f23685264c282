"""Contexts: clusters by name: their name servers, who asks there, and whether by TLS.

    $XDG_CONFIG_HOME/rmq/contexts.json, or ~/.config/rmq/contexts.json
    {"current": "prod", "contexts": {"prod": {"namesrv": "10.0.0.5:9876", "tls": true}}}

A context is what the environment would say, so it reaches a command as that: NAMESRV_ADDR,
RMQ_CREDENTIALS, RMQ_TLS and so on. What counts, the first that says it: options of the command;
--context; the environment; the context that is in use. Commands that serve go by none.
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

    def environment(self) -> dict[str, str]:
        """Every variable that it stands for; empty: not set, whatever the environment says."""
        return {
            "NAMESRV_ADDR": self.namesrv,
            "RMQ_CREDENTIALS": self.credentials or "",
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
        """ConfigError: there is none of this name."""
        found = self.contexts.get(name)
        if found is None:
            there = ", ".join(sorted(self.contexts)) or "none: rmq context add NAME --namesrv .."
            raise ConfigError(f"there is no context {name}; there is {there}")
        return found


def contexts_path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "rmq" / "contexts.json"


def read_contexts() -> Contexts:
    """ConfigError: the file is damaged."""
    path = contexts_path()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Contexts)
    except FileNotFoundError:
        return Contexts()
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path}: {error}; mend it, or remove it") from None


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
    """What is to be set for a command: of the context that was asked for everything, of the one in
    use what the environment does not say. Where that names an account or TLS, none of either is
    taken from the context: half of each would fit neither."""
    contexts = read_contexts()
    name = given or environment.get(VARIABLE)
    if name:
        return contexts.get(name).environment()
    if contexts.current is None:
        return {}
    found = contexts.get(contexts.current).environment()
    if environment.get("NAMESRV_ADDR"):
        return {}  # another cluster: nothing of this one's belongs there
    if environment.get("RMQ_ACCESS_KEY") or environment.get("RMQ_CREDENTIALS"):
        found.pop("RMQ_CREDENTIALS")
    if any(environment.get(each) for each in found if each.startswith("RMQ_TLS")):
        found = {name: value for name, value in found.items() if not name.startswith("RMQ_TLS")}
    return {name: value for name, value in found.items() if value}

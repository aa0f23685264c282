"""Runtime config: a server's settings, listed and changed at run time (name server: 319, 318).

A change is a text of properties, "enableTopicList=false\n". Keys on the black list (configBlackList
and the paths, which no request may choose) are refused with NO_PERMISSION; keys that are unknown,
not changeable at run time, or have a wrong value are refused with an error that names them. Either
the whole change is taken or nothing. Changes are kept in the file configStorePath and applied again
at the next start, over the property file with which the server is started.

A key of RocketMQ's without effect here (productEnvName) is kept and shown, and the answer names it.

Example: update(b"orderMessageEnable=true\n") makes routes carry orderTopicConf from now on.
"""

import asyncio
import logging
from pathlib import Path

from rmq import java_properties
from rmq.base import atomic_file
from rmq.config import Settings
from rmq.errors import ConfigError

# On the black list in any case, as in Apache's name server.
_ALWAYS_BLACK = frozenset(("configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"))

_log = logging.getLogger("rmq.serving.runtime_config")


class Forbidden(ConfigError):
    """The change names a key on the black list."""


def path_of(text: str) -> Path | None:
    """The path that a setting names; None for "", with which nothing is kept on disk."""
    return Path(text).expanduser() if text else None


class RuntimeConfig:
    def __init__(self, settings: Settings, path: Path | None) -> None:
        self.settings = settings
        self._path = path
        self._changed: dict[str, str] = {}  # what the file holds
        self._one_change = asyncio.Lock()

    def load(self) -> None:
        """Applies the earlier updates in the file; keys that cannot be applied are logged."""
        content = atomic_file.read(self._path) if self._path is not None else None
        if content is None:
            return
        found = java_properties.parse(content.decode("utf-8", "replace"), str(self._path))
        current = dict(self.settings.items())
        ignored = []
        for key, text in found.items():
            try:
                self.settings.change({key: text})
                self._changed[key] = text
            except ConfigError:
                if current.get(key) != text:
                    ignored.append(key)
        _log.info("%s: applied %s", self._path, ", ".join(self._changed) or "nothing")
        if ignored:
            _log.warning("%s: cannot be changed this way: %s", self._path, ", ".join(ignored))

    def text(self) -> bytes:
        """Every setting as "key=value" lines, in alphabetical order; secrets as ******."""
        return java_properties.format(self.settings.shown()).encode()

    async def update(self, text: bytes) -> str:
        """Takes a change, durably; returns what to tell about it: keys that are only kept and
        shown. Forbidden, ConfigError or OSError."""
        changes = java_properties.parse(text.decode("utf-8", "replace"), "the update")
        black = _ALWAYS_BLACK | set(self.settings.configBlackList.split(";"))
        for key in changes:
            if key in black:
                raise Forbidden(f"{key} is on the black list and cannot be updated")
        async with self._one_change:
            before = {key: text for key, text in self.settings.items() if key in changes}
            ignored = ", ".join(self.settings.change(changes))
            kept = {**self._changed, **changes}
            if self._path is not None:
                content = java_properties.format(sorted(kept.items())).encode()
                try:
                    await asyncio.to_thread(atomic_file.replace, self._path, content)
                except OSError:
                    self.settings.change(before)
                    raise
            self._changed = kept
        _log.info("settings changed: %s", ", ".join(sorted(changes)) or "none")
        return f"without effect in rmq: {ignored}" if ignored else ""

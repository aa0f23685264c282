"""Security: the files of a broker that lets in only who belongs.

    authority.pem, authority.key   who signs; not where a real authority is asked
    server.pem, server.key         what servers show
    server.csr                     instead of server.pem: for a real authority
    admin.json                     the first Super user
    security.conf                  settings that name these files

Keys and passwords have mode 0600, a folder that is made 0700. Nothing is overwritten.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from rmq.errors import ConfigError

PASSWORD_BYTES = 24


class Security:
    """files: name -> content; `folder` is absolute."""

    def __init__(self, folder: Path, names: Sequence[str], admin: str, mode: str) -> None:
        """names: what clients call the servers by, host names and addresses; the first one is the
        certificate's subject."""
        self.folder = folder.expanduser().absolute()
        self.admin, self.mode = admin, mode
        self.password = secrets.token_urlsafe(PASSWORD_BYTES)
        self.names = list(names)
        self.files: dict[str, bytes] = {}

    def make(self, *, by_real_authority: bool) -> None:
        """Fills `files`. ConfigError without the library that makes certificates."""
        try:
            from rmq.setup.certificates import Authority, request
        except ImportError as error:
            raise ConfigError(
                f"certificates need cryptography ({error}): pip install 'rmq[security]'"
            ) from None
        try:
            if by_real_authority:
                asked = request(self.names)
                self.files |= {"server.csr": asked.certificate, "server.key": asked.key}
            else:
                authority = Authority.make()
                server = authority.sign(self.names)
                self.files |= {
                    "authority.pem": authority.pair.certificate,
                    "authority.key": authority.pair.key,
                    "server.pem": server.certificate,
                    "server.key": server.key,
                }
        except ValueError as error:
            raise ConfigError(f"no certificate for {', '.join(self.names)}: {error}") from None
        user = {"username": self.admin, "password": self.password}
        self.files["admin.json"] = json.dumps(user).encode() + b"\n"
        self.files["security.conf"] = "\n".join(self._settings(by_real_authority)).encode()

    def _settings(self, by_real_authority: bool) -> list[str]:
        trusted = "PEM of your authority" if by_real_authority else self._path("authority.pem")
        off = "# " if by_real_authority else ""
        return [
            "# Made by `rmq setup security`. For brokers, name servers and controllers.",
            "authenticationEnabled=true",
            "authorizationEnabled=true",
            f"initAuthenticationUser={self._path('admin.json')}",
            f"tls.server.mode={self.mode}",
            f"tls.server.certPath={self._path('server.pem')}",
            f"tls.server.keyPath={self._path('server.key')}",
            "# what servers ask each other goes by TLS, too",
            "tls.enable=true",
            f"{off}tls.client.authServer=true",
            f"{off}tls.client.trustCertPath={trusted}",
            "",
        ]

    def _path(self, name: str) -> str:
        return str(self.folder / name)

    def write(self) -> None:
        """ConfigError for a file that is there, or that cannot be written; then none is left."""
        there = [name for name in self.files if (self.folder / name).exists()]
        if there:
            raise ConfigError(
                f"{self.folder} has {', '.join(sorted(there))} already: choose another --directory"
            )
        made: list[Path] = []
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name, content in self.files.items():
                is_public = name.endswith((".pem", ".csr", ".conf"))
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                fd = os.open(self.folder / name, flags, 0o644 if is_public else 0o600)
                made.append(self.folder / name)
                with os.fdopen(fd, "wb") as file:
                    file.write(content)
        except OSError as error:
            for path in made:
                path.unlink(missing_ok=True)
            raise ConfigError(f"{self.folder} cannot be written: {error.strerror}") from None

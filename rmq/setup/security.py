"""Security: the files of a broker that lets in only known accounts.

    authority.pem, authority.key   the authority that signs; not made if a real one shall sign
    server.pem, server.key         what servers show to clients
    server.csr                     instead of server.pem: for a real authority
    admin.json                     the first Super user
    security.conf                  settings that name these files

Keys and passwords have mode 0600, and a new folder has mode 0700. Nothing is overwritten. The
settings also name the audit log. The server that writes it makes the file (0600), in this folder
unless another place is given.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from pathlib import Path

from rmq.setup.tls_files import certificate_files, client_settings, server_settings, write_new

PASSWORD_BYTES = 24


class Security:
    """files: name -> content; `folder` is absolute."""

    def __init__(
        self, folder: Path, names: Sequence[str], admin: str, mode: str,
        audit_log: Path | None = None,
    ) -> None:  # fmt: skip
        """names: host names and addresses by which clients connect to the servers; the first one is
        the certificate's subject."""
        self.folder = folder.expanduser().absolute()
        self.audit_log = (audit_log or self.folder / "audit.log").expanduser().absolute()
        self.admin, self.mode = admin, mode
        self.password = secrets.token_urlsafe(PASSWORD_BYTES)
        self.names = list(names)
        self.files: dict[str, bytes] = {}

    def make(self, *, by_real_authority: bool) -> None:
        """Fills `files`. ConfigError: the library that makes certificates is not installed."""
        self.files |= certificate_files(self.names, by_real_authority=by_real_authority)
        user = {"username": self.admin, "password": self.password}
        self.files["admin.json"] = json.dumps(user).encode() + b"\n"
        self.files["security.conf"] = "\n".join(self._settings(by_real_authority)).encode()

    def _settings(self, by_real_authority: bool) -> list[str]:
        trusted = "PEM of your authority" if by_real_authority else self._path("authority.pem")
        ask, *whom = client_settings(trusted)
        off = "# " if by_real_authority else ""
        return [
            "# Made by `rmq setup security`. For brokers, name servers and controllers.",
            "authenticationEnabled=true",
            "authorizationEnabled=true",
            f"initAuthenticationUser={self._path('admin.json')}",
            *server_settings(self.folder, self.mode),
            "# what servers ask each other goes by TLS, too",
            ask,
            *(off + each for each in whom),
            "# who changed what, and who was refused; for `rmq audit` and the console",
            f"rmqAuditLog={self.audit_log}",
            "",
        ]

    def _path(self, name: str) -> str:
        return str(self.folder / name)

    def write(self) -> None:
        """Writes the files as write_new() does."""
        write_new(self.folder, self.files)

"""TLS files: certificates in a folder, and the settings of servers that use them.

    write_new(folder, certificate_files(["broker.example.org", "10.0.0.5"]))
    [*server_settings(folder, "enforcing"), *client_settings(f"{folder}/authority.pem")]

Keys have mode 0600, and a new folder has mode 0700. Nothing is overwritten.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rmq.errors import ConfigError


def certificate_files(names: Sequence[str], *, by_real_authority: bool = False) -> dict[str, bytes]:
    """File name -> content. ConfigError: the library that makes certificates is not installed, or
    one of `names` is no name."""
    try:
        from rmq.setup.certificates import Authority, request
    except ImportError as error:
        raise ConfigError(
            f"certificates need cryptography ({error}): pip install 'rmq[security]'"
        ) from None
    try:
        if by_real_authority:
            asked = request(names)
            return {"server.csr": asked.certificate, "server.key": asked.key}
        authority = Authority.make()
        server = authority.sign(names)
    except ValueError as error:
        raise ConfigError(f"no certificate for {', '.join(names)}: {error}") from None
    return {
        "authority.pem": authority.pair.certificate,
        "authority.key": authority.pair.key,
        "server.pem": server.certificate,
        "server.key": server.key,
    }


def server_settings(folder: Path, mode: str) -> list[str]:
    """key=value: settings by which servers show clients the certificate in this folder."""
    return [
        f"tls.server.mode={mode}",
        f"tls.server.certPath={folder / 'server.pem'}",
        f"tls.server.keyPath={folder / 'server.key'}",
    ]


def client_settings(trusted: str) -> list[str]:
    """key=value: settings of servers as clients of other servers. The first one turns TLS on, the
    others say which certificates to trust."""
    return [
        "tls.enable=true",
        "tls.client.authServer=true",
        f"tls.client.trustCertPath={trusted}",
    ]


def write_new(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes the files. ConfigError: one exists or cannot be written; then no new one is left."""
    there = [name for name in files if (folder / name).exists()]
    if there:
        raise ConfigError(
            f"{folder} has {', '.join(sorted(there))} already: choose another --directory"
        )
    made: list[Path] = []
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, content in files.items():
            is_public = name.endswith((".pem", ".csr", ".conf"))
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            fd = os.open(folder / name, flags, 0o644 if is_public else 0o600)
            made.append(folder / name)
            with os.fdopen(fd, "wb") as file:
                file.write(content)
    except OSError as error:
        for path in made:
            path.unlink(missing_ok=True)
        raise ConfigError(f"{folder} cannot be written: {error.strerror}") from None

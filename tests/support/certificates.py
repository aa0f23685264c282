"""Certificates: an authority for tests, and the certificates that it signs.

    authority = Authority(tmp_path)
    server = authority.pair("server")       server.certificate, server.key: paths of PEM files
    authority.certificate                   what clients trust
    lay(server, used)                       replaces the files `used` of a running server

The keys are elliptic; the certificates are valid for a day, for localhost and 127.0.0.1. They are
made in this process, because each start of the openssl command costs 45 ms of CPU time, and a pair
would need two.
"""

from __future__ import annotations

import datetime
import ipaddress
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

CURVE = ec.SECP256R1()
NAMES = x509.SubjectAlternativeName(
    [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
)


@dataclass(frozen=True)
class Pair:
    certificate: Path
    key: Path

    def settings(self, mode: str, **more: object) -> list[str]:
        """Options of a command that serves with this pair."""
        given = {"mode": mode, "certPath": self.certificate, "keyPath": self.key, **more}
        words: list[str] = []
        for name, value in given.items():
            words += ["--set", f"tls.server.{name}={value}"]
        return words


def lay(pair: Pair, used: Pair) -> None:
    """Replaces the files of `used` by those of `pair`: first the key, each by a rename."""
    beside = used.key.with_name("next")
    for source, target in ((pair.key, used.key), (pair.certificate, used.certificate)):
        shutil.copy(source, beside)
        beside.rename(target)


class Authority:
    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self.certificate, self._key_file = folder / f"{name}.pem", folder / f"{name}.key"
        self._key = ec.generate_private_key(CURVE)
        self._name = _subject(f"/CN={name}")
        own = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        is_authority = x509.BasicConstraints(ca=True, path_length=None)
        begun = self._begun(self._name, self._key).add_extension(is_authority, critical=True)
        self._put(begun.add_extension(own, critical=False), self.certificate)
        self._key_file.write_bytes(_private(self._key))

    def pair(self, name: str, password: str = "", subject: str = "") -> Pair:
        """Makes a key and signs a certificate. subject: /CN=one/CN=two, or by default /CN=name."""
        key, file = ec.generate_private_key(CURVE), self._folder / f"{name}.key"
        file.touch(0o600)
        file.write_bytes(_private(key, password))
        return self._signed(key, file, name, subject)

    def renewed(self, pair: Pair, name: str) -> Pair:
        """Signs another certificate, of this name, for the key of `pair`."""
        key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return self._signed(key, pair.key, name)

    def _signed(
        self, key: ec.EllipticCurvePrivateKey, file: Path, name: str, subject: str = ""
    ) -> Pair:
        found = self._folder / f"{name}.pem"
        begun = self._begun(_subject(subject or f"/CN={name}"), key)
        self._put(begun.add_extension(NAMES, critical=False), found)
        return Pair(found, file)

    def _begun(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    def _put(self, begun: x509.CertificateBuilder, path: Path) -> None:
        signed = begun.sign(self._key, hashes.SHA256())
        path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def sign(self, request: Path, certificate: Path) -> None:
        """Signs a request with the openssl command, as a company's authority would: with another
        program than the one that made the request."""
        names = self._folder / "names.ext"
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        words = [
            "openssl", "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey",
            self._key_file, "-CAcreateserial", "-days", 1, "-extfile", names, "-out", certificate,
        ]  # fmt: skip
        subprocess.run(list(map(str, words)), check=True, capture_output=True)


def _subject(words: str) -> x509.Name:
    """/CN=one/CN=two"""
    names = [each.removeprefix("CN=") for each in words.split("/")[1:]]
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])


def _private(key: ec.EllipticCurvePrivateKey, password: str = "") -> bytes:
    locked: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        locked = serialization.BestAvailableEncryption(password.encode())
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, locked)

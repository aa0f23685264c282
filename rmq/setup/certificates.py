"""Certificates: for tests, or a company without an authority; and requests to a real authority.

    authority = Authority.make()
    server = authority.sign(["broker.example.org", "10.0.0.5"])    server.certificate, server.key
    request(["broker.example.org"])                                 a key, and what is to be signed

Everything is PEM. Keys are elliptic (P-256) and have no password: their files have mode 0600.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS, SERVER_DAYS = 3650, 825  # longer ones are refused by some clients
CLOCKS_DIFFER = datetime.timedelta(hours=1)


class Pair(msgspec.Struct, frozen=True):
    certificate: bytes  # or the request for one
    key: bytes

    def __repr__(self) -> str:
        return "Pair()"


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _alternatives(names: Sequence[str]) -> x509.SubjectAlternativeName:
    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return x509.SubjectAlternativeName(found)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


class Authority:
    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate, self._key = certificate, key

    @classmethod
    def make(cls, name: str = "rmq authority") -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        usage = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        subject = _subject(name)
        certificate = (
            _begun(subject, subject, key.public_key(), AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(own, critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @property
    def pair(self) -> Pair:
        return Pair(self._certificate.public_bytes(serialization.Encoding.PEM), _private(self._key))

    def sign(self, names: Sequence[str]) -> Pair:
        """A certificate for both ends of a connection, as brokers are also clients of each
        other."""
        key = ec.generate_private_key(ec.SECP256R1())
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            _begun(_subject(names[0]), self._certificate.subject, key.public_key(), SERVER_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_alternatives(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), _private(key))


def request(names: Sequence[str]) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    asked = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(_subject(names[0]))
        .add_extension(_alternatives(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(asked.public_bytes(serialization.Encoding.PEM), _private(key))

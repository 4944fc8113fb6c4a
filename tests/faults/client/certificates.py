"""An authority that signs certificates for a test's servers and clients."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


@dataclass(frozen=True)
class KeyPair:
    """PEM files."""

    certificate: str
    key: str


class Authority:
    """A new authority; all its files are below `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"authority of {folder.name}")])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = self._builder(self._name, self._key, timedelta(hours=1))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(usage, critical=True)
        self.certificate = self._write("authority", builder, self._key).certificate

    def issue(
        self, name: str, addresses: Sequence[str] = (), lifetime: timedelta = timedelta(hours=1)
    ) -> KeyPair:
        """A certificate for a name and addresses; one with a negative lifetime has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        hosts = [x509.DNSName(name), *(x509.IPAddress(ipaddress.ip_address(each)) for each in addresses)]
        builder = self._builder(subject, key, lifetime)
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        return self._write(name, builder, key)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, lifetime: timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + lifetime)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(authority, critical=False)
        )

    def _write(self, name: str, builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> KeyPair:
        pair = KeyPair(str(self._folder / f"{name}.pem"), str(self._folder / f"{name}.key"))
        signed = builder.sign(self._key, hashes.SHA256())
        Path(pair.certificate).write_bytes(signed.public_bytes(Encoding.PEM))
        Path(pair.key).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return pair

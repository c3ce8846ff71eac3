"""Certificates for the TLS connections of the tests, valid for two days."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

_VALID_FOR = timedelta(days=2)
_RSA_BITS = 2048


def create_authority(certificate: Path, host: str) -> None:
    """Write a self-signed certificate for `localhost` and an address, and its key to a file with the suffix `.key`.

    The certificate is a server's certificate and the CA of its clients. Its key is an RSA key, because the TLS library
    of MySQL 8.0.12 accepts no other.
    """
    key = rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS)
    name = _name("localhost")
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(host))])
    result = _builder(name, name, key, key).add_extension(names, critical=False)
    result = result.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    _write(certificate, certificate.with_suffix(".key"), key, result.sign(key, hashes.SHA256()))


def create_client_certificate(directory: Path, authority: Path, user: str, *, curve: bool) -> tuple[Path, Path]:
    """Write a client certificate of a user, signed by an authority, and its key. Return both paths.

    The key is an elliptic curve key or an RSA key.
    """
    signer = x509.load_pem_x509_certificate(authority.read_bytes())
    signer_key = serialization.load_pem_private_key(authority.with_suffix(".key").read_bytes(), None)
    assert isinstance(signer_key, rsa.RSAPrivateKey)
    key: PrivateKey
    if curve:
        key = ec.generate_private_key(ec.SECP256R1())
    else:
        key = rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS)
    result = _builder(_name(user), signer.subject, key, signer_key).sign(signer_key, hashes.SHA256())
    certificate, key_file = directory / "client.crt", directory / "client.key"
    _write(certificate, key_file, key, result)
    return certificate, key_file


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: PrivateKey, issuer_key: PrivateKey) -> x509.CertificateBuilder:
    """Return a certificate to be signed, with the identifiers of both keys, which strict clients require."""
    now = datetime.now(UTC)
    subject_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _VALID_FOR)
        .add_extension(subject_id, critical=False)
        .add_extension(issuer_id, critical=False)
    )


def _write(certificate: Path, key_file: Path, key: PrivateKey, signed: x509.Certificate) -> None:
    """Write a certificate and its key as PEM. The key is readable by its owner only."""
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key_file.touch(mode=0o600)
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )

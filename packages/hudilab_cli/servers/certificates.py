"""A certificate for a server on loopback, and the one of the CA that signed it."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from hudilab.files import write_private
from hudilab_cli.servers.process import HOST

CA = "ca.pem"  # the certificate that clients trust


def make_certificates(folder: Path) -> None:
    """Write `ca.pem`, which clients trust, and `server.pem` (key and certificate), signed by it."""
    ca_file, server_file = folder / CA, folder / "server.pem"
    if ca_file.exists() and server_file.exists():
        return
    issuer = _name("Hudi Streaming Lab")
    ca_key, server_key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    ca = (
        _unsigned(issuer, issuer, ca_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))]
    server = (
        _unsigned(_name("localhost"), issuer, server_key)
        .add_extension(x509.SubjectAlternativeName(here), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = server_key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = private + server.public_bytes(pem) + ca.public_bytes(pem)
    write_private(server_file, chain.decode())
    ca_file.write_bytes(ca.public_bytes(pem))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=3650))
    )

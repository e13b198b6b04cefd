"""OpenLDAP's server on loopback, with a few people and a certificate of its own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

BASE = "dc=example,dc=org"
MANAGER, MANAGER_PASSWORD = f"cn=manager,{BASE}", "manager secret"
PASSWORD = "her directory password"
START_SECONDS = 120.0
PORTS = 5  # pairs that are tried
CONFIGURATION = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {folder}/pid
TLSCertificateFile {folder}/certificate.pem
TLSCertificateKeyFile {folder}/key.pem
database mdb
suffix "{base}"
rootdn "{manager}"
rootpw "{password}"
directory {folder}/data
access to attrs=userPassword by anonymous auth by * none
access to * by * none
"""
PEOPLE = {"ann": "ann", "bob": "bob", "twin": "twin", "admin": "admin", "odd": "o(d*d)\\name"}


@dataclass(frozen=True)
class Directory:
    plain: str
    """Its `ldap://` address."""
    secure: str
    """Its `ldaps://` address."""
    certificate: Path


def _make_certificate(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _write_entries() -> str:
    lines = [f"dn: {BASE}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: Example\n"]
    entries = [*PEOPLE.items(), ("second", "twin")]
    lines += [
        f"dn: cn={name},{BASE}\nobjectClass: inetOrgPerson\ncn: {name}\nsn: {name}\nuid: {uid}\n"
        f"userPassword: {PASSWORD}\n"
        for name, uid in entries
    ]
    return "\n".join(lines)


def _find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def run_slapd(folder: Path) -> Iterator[Directory]:
    """Run a directory; skip the test where slapd is not installed."""
    slapd, slapadd = (shutil.which(name, path="/usr/sbin:/usr/bin") for name in ("slapd", "slapadd"))
    if slapd is None or slapadd is None:
        pytest.skip("slapd is not installed")
    (folder / "data").mkdir()
    _make_certificate(folder)
    configuration = folder / "slapd.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, base=BASE, manager=MANAGER, password=MANAGER_PASSWORD))
    subprocess.run([slapadd, "-f", configuration], input=_write_entries(), text=True, check=True, capture_output=True)
    for _ in range(PORTS):
        plain, secure = _find_port(), _find_port()
        addresses = f"ldap://127.0.0.1:{plain} ldaps://127.0.0.1:{secure}"
        process = subprocess.Popen([slapd, "-f", configuration, "-h", addresses, "-d", "0"], stderr=subprocess.DEVNULL)
        try:
            if _is_open(process, secure):
                yield Directory(f"ldap://127.0.0.1:{plain}", f"ldaps://localhost:{secure}", folder / "certificate.pem")
                return
        finally:
            process.terminate()
            process.wait()
    raise RuntimeError("slapd does not start")


def _is_open(process: subprocess.Popen[bytes], port: int) -> bool:
    """Return True if it takes connections; False when it has ended, as another program has taken one of its ports."""
    end = time.monotonic() + START_SECONDS
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process.poll() is None
        except OSError:
            assert time.monotonic() < end, "slapd does not open its port"
            time.sleep(0.05)
    return False

"""FTP servers on loopback for the tests: rclone's, vsftpd, and pyftpdlib with and without what makes FTP usable."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ftplib import FTP
from ipaddress import IPv4Address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from tests import servers

USER, PASSWORD = "u", "p w"
VSFTPD = shutil.which("vsftpd") or shutil.which("vsftpd", path="/usr/sbin")
REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class FtpServer:
    """`folder`: what the server shows at `root`."""

    port: int
    folder: Path
    root: str = ""
    username: str = USER
    password: str = PASSWORD
    process: int = 0
    tls: bool = False

    def make_folder(self) -> Path:
        """A new folder, made by the server itself: some would not look for one made behind their back."""
        name = uuid4().hex
        if self.tls:
            (self.folder / name).mkdir()
            (self.folder / name).chmod(0o777)
            return self.folder / name
        with FTP() as client:
            client.connect("127.0.0.1", self.port, 20)
            client.login(self.username, self.password)
            client.mkd(f"{self.root}/{name}")
        return self.folder / name

    def options(self, folder: Path | None = None, **more: Any) -> dict[str, Any]:
        """The options of a storage of one folder, a new one unless given."""
        path = f"{self.root}/{(folder or self.make_folder()).relative_to(self.folder)}"
        return {
            "address": f"127.0.0.1:{self.port}", "encoding": "UTF-8", "username": self.username,
            "password": self.password, "root_folder_path": path, **more,
        }  # fmt: skip


Start = Callable[..., AbstractContextManager[FtpServer]]


@contextmanager
def open_folder() -> Iterator[Path]:
    """A new folder that every user of this machine may enter."""
    with TemporaryDirectory(prefix="ftp-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def rclone_ftp(folder: Path, *, port: int = 0) -> Iterator[FtpServer]:
    """`rclone serve ftp`: MLSD, no MFMT; forgets an offset when anything follows it but the transfer."""
    data = _make_data(folder)
    with servers.rclone("ftp", data, "--user", USER, "--pass", PASSWORD, port=port) as used:
        yield FtpServer(used, data)


@contextmanager
def vsftpd(folder: Path, *, port: int = 0, **more: str) -> Iterator[FtpServer]:
    """vsftpd: no MLSD; anonymous users may do all below `data`. `more`: lines of its configuration.

    Its users are not those of this process: `folder` has to be open to them, as `open_folder` is.
    """
    data, port = _make_data(folder / "root"), port or servers.free_port()
    (folder / "empty").mkdir(exist_ok=True)
    (folder / "root").chmod(0o755)
    settings = {
        "listen": "YES", "listen_address": "127.0.0.1", "listen_port": str(port), "background": "NO",
        "anonymous_enable": "YES", "anon_root": str(folder / "root"), "no_anon_password": "YES",
        "anon_upload_enable": "YES", "anon_mkdir_write_enable": "YES", "anon_other_write_enable": "YES",
        "write_enable": "YES", "anon_world_readable_only": "NO", "anon_umask": "022", "ftp_username": "daemon",
        "seccomp_sandbox": "NO", "secure_chroot_dir": str(folder / "empty"), "utf8_filesystem": "YES",
        "xferlog_enable": "NO", **more,
    }  # fmt: skip
    config = folder / "vsftpd.conf"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = [str(VSFTPD), str(config)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as child:
        try:
            servers.wait_for(port)
            yield FtpServer(port, data, "/data", "anonymous", "x", child.pid, "ssl_enable" in more)
        finally:
            os.killpg(child.pid, signal.SIGKILL)  # those that serve a connection do not end with the one that listens


@contextmanager
def pyftpdlib(folder: Path, *, port: int = 0, **traits: Any) -> Iterator[FtpServer]:
    """pyftpdlib in a process of its own; `traits` as in `_serve`."""
    data = _make_data(folder)
    port = port or servers.free_port()
    command = [sys.executable, "-m", "tests.servers.ftp", json.dumps({"port": port, "folder": str(data), **traits})]
    with subprocess.Popen(command, cwd=REPOSITORY) as child:
        try:
            servers.wait_for(port)
            yield FtpServer(port, data, process=child.pid)
        finally:
            child.send_signal(signal.SIGCONT)
            child.kill()


def _make_data(folder: Path) -> Path:
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    data.chmod(0o777)
    return data


def make_certificate(folder: Path, host: str = "127.0.0.1") -> Path:
    """A certificate of its own for `host`, with its key, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(host))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    path = folder / "certificate.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, form, plain)
    )
    return path


def require_tls(certificate: Path) -> dict[str, str]:
    """Lines of vsftpd's configuration: TLS alone, and data only in a session of the control connection."""
    return {
        "ssl_enable": "YES", "allow_anon_ssl": "YES", "force_anon_logins_ssl": "YES", "force_anon_data_ssl": "YES",
        "require_ssl_reuse": "YES", "rsa_cert_file": str(certificate), "rsa_private_key_file": str(certificate),
        "ssl_ciphers": "HIGH",
    }  # fmt: skip


def _serve(
    port: int,
    folder: str,
    facts: bool = True,
    replaces: bool = True,
    may: str = "elradfmwMT",
    most: int = 0,
    encoding: str = "utf-8",
) -> None:
    """Serve a folder. `facts`: whether it knows MLSD, MLST and MFMT; `replaces`: whether RNTO replaces a file; `may`:
    what its user may do, in its letters; `most`: connections from one address."""
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler
    from pyftpdlib.servers import FTPServer

    class Handler(FTPHandler):
        def ftp_RNTO(self, path: str) -> Any:
            if not replaces and self.fs.lexists(path):
                self.respond("553 File exists.")
                return None
            return super().ftp_RNTO(path)

    hidden = () if facts else ("MLSD", "MLST", "MFMT")
    Handler.proto_cmds = {key: value for key, value in FTPHandler.proto_cmds.items() if key not in hidden}
    Handler.authorizer = DummyAuthorizer()
    Handler.authorizer.add_user(USER, PASSWORD, folder, perm=may)
    Handler.encoding = encoding
    server = FTPServer(("127.0.0.1", port), Handler)
    server.max_cons_per_ip = most
    server.serve_forever(handle_exit=False)


if __name__ == "__main__":
    import logging

    logging.disable()
    _serve(**json.loads(sys.argv[1]))

"""The few certificates that AWS's endpoints need are there, or nothing is built."""

from __future__ import annotations

import ssl
from pathlib import Path

import certifi
import pytest

import mangrove
from deployment.roots import NAMES, choose_roots, write_roots
from mangrove.core import aws

BUNDLE = Path(certifi.where())


def test_the_roots_are_certificates_that_python_trusts_and_no_others() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=choose_roots(BUNDLE.read_text()))
    names = {dict(part[0] for part in certificate["subject"])["commonName"] for certificate in context.get_ca_certs()}
    assert names == set(NAMES)


def test_without_one_of_them_nothing_is_built() -> None:
    with pytest.raises(ValueError, match="Amazon Root CA 3"):
        choose_roots(BUNDLE.read_text().replace('"Amazon Root CA 3"', '"Amazon Root CA 9"'))


def test_they_lie_where_the_package_looks_for_them(tmp_path: Path) -> None:
    (tmp_path / "certifi").mkdir()
    (tmp_path / "certifi" / "cacert.pem").write_text(BUNDLE.read_text())
    write_roots(tmp_path)
    assert not list(tmp_path.rglob("*.pem"))[1:], "only beside the package"
    (tmp_path / "mangrove" / "core").mkdir(parents=True)
    write_roots(tmp_path)
    assert (tmp_path / aws.ROOTS.relative_to(Path(mangrove.__file__).parents[1])).read_text() == choose_roots(
        BUNDLE.read_text()
    )

"""A service whose page was not built."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from mangrove.standalone.template import ROOT
from tests.support.service import Service, run_service

LEFT_OUT = {"page", "tests", "site", "bench", "docs", "data"}  # of the checkout


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of a copy of the checkout that has no page."""
    copy = tmp_path_factory.mktemp("checkout")
    for path in ROOT.iterdir():
        if path.name in ("shared", "functions"):
            shutil.copytree(path, copy / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif path.name not in LEFT_OUT and not path.name.startswith("."):
            (copy / path.name).symlink_to(path)
    python_path = os.pathsep.join([str(copy / "shared"), str(copy), os.environ.get("PYTHONPATH", "")])
    with run_service(tmp_path_factory.mktemp("service") / "data", PYTHONPATH=python_path) as service:
        yield service


@pytest.mark.parametrize("accept", ["text/html,*/*;q=0.8", "*/*", None], ids=["browser", "curl", "no header"])
def test_root_of_a_service_without_a_page_says_what_to_do(service: Service, accept: str | None) -> None:
    http = service.anonymous().http
    http.headers.pop("accept")
    answer = http.get("/", headers={} if accept is None else {"accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for text in ("Mangrove is running without its page", "Node.js 20.19 or newer", "make serve", "page/build.log"):
        assert text in answer.text
    assert answer.headers["content-security-policy"] == "default-src 'none'"


def test_service_without_a_page_answers_the_interface_alone(service: Service) -> None:
    assert service.client().names("/") == ["files"]
    http = service.anonymous().http
    assert http.get("/", headers={"accept": "application/json"}).status_code == 404
    assert http.get("/@/files", headers={"accept": "text/html"}).status_code == 404
    log = service.data.parent / "data.log"
    assert "the page is not built" in log.read_text()

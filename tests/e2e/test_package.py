"""The wheel in an empty environment, in a folder without the repository: the journey of the quickstart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from deployment.package import ENGINE_PLATFORM, ROOT, build
from tests.support.service import ADMIN_PASSWORD
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (ROOT / "page/dist/index.html").exists(), reason="the page is not built"),
]
INSTALL_SECONDS = 900


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels, by their platforms."""
    return {
        path.stem.rpartition("-")[2]: path for path in build(tmp_path_factory.mktemp("dist")) if path.suffix == ".whl"
    }


@pytest.fixture(scope="module")
def programs(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment in which only the wheel is installed, from the package index."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", f"{wheels[ENGINE_PLATFORM]}[fsspec]"]
    subprocess.run(pip, check=True, timeout=INSTALL_SECONDS, cwd=folder)
    return folder / "bin"


@contextmanager
def run_installed(programs: Path, folder: Path) -> Iterator[str]:
    """Run the installed service in an environment without the variables of this one. Yield its address."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "MANGROVE_ADMIN_PASSWORD": ADMIN_PASSWORD}
    with (folder / "printed").open("w") as printed, (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [str(programs / "mangrove"), "serve", "--port", "0"],
            cwd=folder,
            env=environment,
            stdout=printed,
            stderr=log,
        )
    try:
        wait_until(lambda: "data in" in (folder / "printed").read_text() or process.poll() is not None)
        assert process.poll() is None, (folder / "log").read_text()
        yield (folder / "printed").read_text().partition(" at ")[2].partition(",")[0]
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_installed_service_walks_through_the_quickstart(programs: Path, tmp_path: Path) -> None:
    with run_installed(programs, tmp_path) as address, httpx.Client(base_url=address, timeout=60) as http:
        login = {"username": "admin", "password": ADMIN_PASSWORD}
        http.headers["authorization"] = http.post("/api/auth/login", json=login).json()["data"]["token"]
        put = http.put("/api/fs/put", content=b"Hello, tree", headers={"file-path": "/files/letters/hello.txt"})
        assert put.json()["code"] == 200
        listing = http.post("/api/fs/list", json={"path": "/files/letters"}).json()["data"]
        assert [entry["name"] for entry in listing["content"]] == ["hello.txt"]
        link = http.post("/api/fs/get", json={"path": "/files/letters/hello.txt"}).json()["data"]["raw_url"]
        assert http.get(link).content == b"Hello, tree"
        page = http.get("/", headers={"accept": "text/html"})
        assert page.status_code == 200 and "<script" in page.text
        assert http.get("/openapi.json").json()["info"]["title"] == "Mangrove"
        assert http.get("/docs/swagger-ui.css").status_code == 200
    assert (tmp_path / "data" / "files" / "letters" / "hello.txt").read_bytes() == b"Hello, tree"


def test_installed_commands_know_their_version_and_the_file_system(programs: Path, tmp_path: Path) -> None:
    def run(*command: str, check: bool = True) -> str:
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        program = [str(programs / command[0]), *command[1:]]
        done = subprocess.run(program, cwd=tmp_path, env=environment, check=check, capture_output=True, text=True)
        return done.stdout

    assert run("mangrove", "--version").startswith("v0.")
    rows = {row["check"]: row for row in json.loads(run("mangrove", "doctor", "--json", "--port", "0", check=False))}
    assert rows["engine"]["ok"] and rows["page"]["ok"]
    assert run("python", "-c", "import fsspec; print(fsspec.get_filesystem_class('mangrove').protocol)") == "mangrove\n"
    modules = (
        "import sys, mangrove.client; print(sorted(m for m in sys.modules if m.startswith(('mangrove.', 'boto'))))"
    )
    assert "mangrove.core" not in run("python", "-c", modules) and "boto" not in run("python", "-c", modules)


def test_wheel_for_other_platforms_has_no_engine_and_says_so(wheels: dict[str, Path], tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheels["any"]), str(tmp_path)], check=True)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "mangrove.standalone", "serve", "--port", "0"], cwd=tmp_path, env=environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1 and "none for this platform: name another one" in done.stderr, done.stderr

"""Attacks 28 to 30: what the service asks of other servers goes where the administrator lets it, and nowhere else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.contract.api import fixtures
from tests.contract.api.accounts import get_refusal
from tests.contract.api.download_client import make_signature, make_url, read_key
from tests.contract.api.offline_download_client import KIND, ask
from tests.contract.api.task_client import TaskClient, read_files, task_client, wait_until
from tests.support import origin, torrents
from tests.support.origin import Origin
from tests.support.service import Client, Service

SECRET = b"what only this machine may read"
REFUSED = "an administrator can name its host in the option allowed_hosts of the storage"


@pytest.fixture(scope="module")
def inside() -> Iterator[Origin]:
    """A server of the administrator's own network."""
    with origin.origin("127.0.0.1") as server:
        server.at("/secret", origin.file(SECRET))
        yield server


@pytest.fixture(scope="module")
def outside() -> Iterator[Origin]:
    """A server that storages here may reach."""
    with origin.origin("127.0.0.2") as server:
        yield server


@pytest.fixture
def owner(service: Service, admin: Client, tmp_path: Path) -> Iterator[TaskClient]:
    """A user with long work."""
    with task_client(service, admin, tmp_path / "other") as client:
        yield client


def proxy(admin: Client, path: str) -> tuple[int, bytes]:
    """Return the answer of `/p` to a signed address."""
    answer = Client(admin.address).http.get(make_url("p", path, make_signature(read_key(admin), path)))
    return answer.status_code, answer.content


def test_url_tree_reads_local_addresses_only_if_allowed(admin: Client, inside: Origin) -> None:
    before = len(inside.requests)
    structure = f"f.bin:{inside.address}/secret"
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": structure}, web_proxy=True) as path:
        status, page = proxy(admin, f"{path}/f.bin")
        assert (status, REFUSED in page.decode(), b"127.0.0.1" in page) == (500, True, False)
    addition = {"url_structure": structure, "head_size": True}
    with fixtures.mount(admin, "UrlTree", addition=addition):
        assert len(inside.requests) == before, "its size was not asked for either"
    addition["allowed_hosts"] = "127.0.0.1"
    with fixtures.mount(admin, "UrlTree", addition=addition, web_proxy=True) as path:
        assert proxy(admin, f"{path}/f.bin") == (200, SECRET)


@pytest.mark.parametrize("target", ["http://{}/secret", "http://localhost:{port}/secret", "http://2130706433:{port}/"])
def test_a_redirect_leads_a_url_tree_no_further(admin: Client, inside: Origin, outside: Origin, target: str) -> None:
    host = inside.address.removeprefix("http://")
    before = len(inside.requests)
    url = outside.at("/f", origin.redirect(target.format(host, port=host.rpartition(":")[2])))
    for addition in (
        {"url_structure": f"f:{url}", "allowed_hosts": "127.0.0.2"},
        {"url_structure": f"f:{url}", "allowed_hosts": "127.0.0.2", "head_size": True},
    ):
        with fixtures.mount(admin, "UrlTree", addition=addition, web_proxy=True) as path:
            status, page = proxy(admin, f"{path}/f")
            assert (status, REFUSED in page.decode()) == (500, True)
    assert len(inside.requests) == before


def test_a_copy_out_of_a_url_tree_brings_nothing_of_this_machine(
    owner: TaskClient, admin: Client, inside: Origin
) -> None:
    before = len(inside.requests)
    structure = f"f.bin:{len(SECRET)}:{inside.address}/secret"
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": structure}) as path:
        body = {"src_dir": path, "dst_dir": owner.folder, "names": ["f.bin"]}
        (made,) = owner.client.ok("/openlist/api/fs/copy", **body)["tasks"]
        row = owner.wait_for("copy", made["id"])
    assert (row["state"], REFUSED in row["error"]) == (7, True)
    assert read_files(owner.disk) == {} and len(inside.requests) == before


# The download tools
with_aria2 = pytest.mark.skipif(not shutil.which("aria2c"), reason="there is no aria2c here: apt-get install aria2")


@pytest.fixture(scope="module")
def aria2(admin: Client) -> Iterator[servers.Aria2]:
    """A real one that the administrator offers, also for web addresses; downloads may reach 127.0.0.2."""
    with servers.aria2() as tool:
        how = {"aria2_uri": tool.uri, "aria2_secret": tool.secret, "offline_download_ready": "aria2"}
        with fixtures.settings(admin, **how, aria2_http="true", offline_download_allowed_hosts="127.0.0.2"):
            yield tool


def test_a_tool_that_no_administrator_set_up_is_nobodys_to_name(owner: TaskClient, admin: Client) -> None:
    with (
        origin.origin() as web,
        fixtures.settings(admin, aria2_uri=f"{web.address}/jsonrpc", offline_download_ready=""),
    ):
        for url in ("http://example.org/f", f"magnet:?xt=urn:btih:{40 * 'a'}", "ftp://example.org/f"):
            refused = get_refusal(ask(owner.client, url, owner.folder, tool="aria2"))
            reason = "aria2 is not set up here; an administrator can do that in the settings"
            assert refused == (500, f"failed init offline download tool aria2: {reason}")
        assert web.requests == []
    assert owner.wait_for_all(KIND) == []


@with_aria2
def test_web_addresses_given_to_aria2_are_fetched_by_the_service(
    aria2: servers.Aria2, owner: TaskClient, admin: Client, outside: Origin
) -> None:
    url = outside.at("/plain.bin", origin.file(b"plain"))
    with fixtures.settings(admin, aria2_http="false"):
        (id,) = owner.download(url, tool="aria2")
        assert owner.wait_for(KIND, id)["error"] == ""
    assert [request.headers["user-agent"] for request in outside.requests if request.path == "/plain.bin"] == [
        "Mangrove"
    ]


def read_refusals(service: Service) -> int:
    """Return the number of connections of aria2 that the guard has refused."""
    return (service.data.parent / f"{service.data.name}.log").read_text().count("connection of aria2 refused")


@with_aria2
@pytest.mark.parametrize("code", [302, 307])
def test_a_redirect_does_not_lead_aria2_to_this_machine(
    aria2: servers.Aria2, owner: TaskClient, inside: Origin, outside: Origin, code: int
) -> None:
    before = len(inside.requests)
    (id,) = owner.download(outside.at("/go", origin.redirect(f"{inside.address}/secret", code)), tool="aria2")
    row = owner.wait_for(KIND, id)
    assert (row["state"], row["error"]) == (
        7,
        "[aria2]: a server was not reached, or is not of those that downloads may reach",
    )
    assert read_files(owner.disk) == {} and len(inside.requests) == before


@with_aria2
@pytest.mark.parametrize("how", ["tracker", "tracker of a magnet link", "web seed"])
def test_no_torrent_leads_aria2_to_this_machine(
    aria2: servers.Aria2, owner: TaskClient, inside: Origin, outside: Origin, how: str
) -> None:
    before, refusals = len(inside.requests), read_refusals(owner.service)
    leading = outside.at("/announce", origin.redirect(f"{inside.address}/secret"))
    described, number = torrents.torrent("f.bin", b"x", **{"seed" if how == "web seed" else "tracker": leading})
    url = outside.at("/f.torrent", origin.file(described))
    if how == "tracker of a magnet link":
        url = f"magnet:?xt=urn:btih:{number}&tr={leading}"
    (id,) = owner.download(url, tool="aria2")
    wait_until(lambda: read_refusals(owner.service) > refusals)
    owner.ask("cancel", KIND, id)
    assert len(inside.requests) == before


@with_aria2
@pytest.mark.parametrize("key", ["tracker", "seed"])
def test_a_torrent_that_names_a_server_of_this_machine_is_not_taken(
    aria2: servers.Aria2, owner: TaskClient, inside: Origin, outside: Origin, key: str
) -> None:
    before = len(inside.requests)
    described, _ = torrents.torrent("f.bin", b"x", **{key: f"{inside.address}/secret"})
    (id,) = owner.download(outside.at("/f.torrent", origin.file(described)), tool="aria2")
    assert owner.wait_for(KIND, id)["error"] == "access to 127.0.0.1 is not allowed"
    assert len(inside.requests) == before

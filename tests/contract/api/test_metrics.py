"""`/metrics` and the overview for administrators."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.contract.api import fixtures
from tests.contract.api.event_client import follow
from tests.contract.api.transfer_client import send
from tests.support.service import Client, Service, run_forked
from tests.support.waiting import wait_until

TOKEN = "m" * 32
REQUESTS = "mangrove_requests_total"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(text: str) -> Samples:
    samples: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        assert family.type in ("counter", "gauge", "histogram")
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in samples, key
            samples[key] = sample.value
    return samples


def scrape(client: Client, **headers: str) -> Samples:
    answer = client.http.get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return parse(answer.text)


def get(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, frozenset(labels.items())), 0.0)


def test_metrics_are_off_by_default(visitor: Client, admin: Client) -> None:
    assert visitor.http.get("/metrics").status_code == admin.http.get("/metrics").status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"x-forwarded-for": "1.2.3.4"}, {"forwarded": "for=1.2.3.4"}, {"via": "1.1 proxy"},
        {"origin": "https://there"}, {"sec-fetch-site": "cross-site"},
    ],
)  # fmt: skip
def test_metrics_without_a_token_refuse_proxies_and_pages(
    admin: Client, visitor: Client, headers: dict[str, str]
) -> None:
    with fixtures.settings(admin, metrics_enabled="true"):
        assert visitor.http.get("/metrics", headers=headers).status_code == 403
        assert visitor.http.get("/metrics").status_code == 200


def test_metrics_with_a_token_need_it(admin: Client, visitor: Client) -> None:
    with fixtures.settings(admin, metrics_enabled="true", metrics_token=TOKEN):
        for text in ("", "x", f"{TOKEN}x", admin.token):
            assert visitor.http.get("/metrics", headers={"authorization": text}).status_code == 403
        assert visitor.http.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    row = {"key": "metrics_token", "value": "short"}
    assert admin.envelope(admin.http.post("/api/admin/setting/save", json=[row]))["code"] != 200


def test_metrics_count_what_happens(service: Service, admin: Client, visitor: Client, folder: str) -> None:
    content = b"x" * (1 << 20)
    with fixtures.settings(admin, metrics_enabled="true"), follow(admin, folder):
        before = scrape(visitor)
        admin.put(f"{folder}/a.bin", content)
        assert admin.bytes(f"{folder}/a.bin").content == content
        admin.get("/api/fs/list", path="/none at all")
        visitor.http.get("/none")
        send(admin, "put", f"{folder}/b.bin", b"x")

        def is_counted() -> bool:
            uploads = {"group": "uploads", "status": "200"}
            return get(scrape(visitor), REQUESTS, **uploads) >= get(before, REQUESTS, **uploads) + 2

        wait_until(is_counted)  # a request is counted when its answer was sent
        after = scrape(visitor)

        def grow(name: str, **labels: str) -> float:
            return get(after, name, **labels) - get(before, name, **labels)

        assert grow("mangrove_requests_total", group="uploads", status="200") >= 2
        assert grow("mangrove_requests_total", group="files", status="500") >= 1
        assert grow("mangrove_requests_total", group="site", status="404") >= 1
        assert grow("mangrove_received_bytes_total", group="uploads") >= len(content)
        assert grow("mangrove_sent_bytes_total", group="downloads") >= len(content)
        assert grow("mangrove_request_seconds_count", group="uploads") >= 2
        assert grow("mangrove_engine_calls_total", result="ok") > 0
        assert grow("mangrove_engine_seconds_count") > 0
        assert get(after, "mangrove_event_streams") >= 1
        assert get(after, "mangrove_connections") >= 1
        assert get(after, "mangrove_sessions") >= 1
        assert get(after, "mangrove_records_up") == 1
        assert get(after, "mangrove_storage_up", mount_path="/files", driver="Local") == 1
        assert get(after, "mangrove_data_disk_bytes", kind="total") > get(
            after, "mangrove_data_disk_bytes", kind="free"
        )
        assert ("mangrove_tasks", frozenset({"kind": "upload", "state": "waiting"}.items())) in after
        assert get(after, "mangrove_memory_bytes", process="server-0") > 1 << 20


def test_metrics_are_those_of_all_processes(tmp_path: Path) -> None:
    with run_forked(tmp_path / "data", MANGROVE_PAGE="none", MANGROVE_PROCESSES="2") as service:
        client = service.client()
        fixtures.save(client, {"metrics_enabled": "true"})
        count = 40
        before = get(scrape(client), REQUESTS, group="users", status="200")
        for _ in range(count):  # each on a new connection, which either process accepts
            httpx.get(f"{service.address}/api/admin/user/list", headers={"authorization": client.token}, timeout=60)
        wait_until(lambda: get(scrape(client), REQUESTS, group="users", status="200") - before >= count)
        after = scrape(client)
        assert get(after, REQUESTS, group="users", status="200") - before == count
        names = {dict(labels)["process"] for name, labels in after if name == "mangrove_memory_bytes"}
        assert names >= {"server-0", "server-1", "parent", "engine"}


def test_overview_has_the_state_of_the_service(service: Service, admin: Client, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with (
        fixtures.local(admin, root) as mount,
        fixtures.settings(admin, hide_storage_details_in_manage_page="false"),
    ):
        root.rename(tmp_path / "gone")
        admin.ok("/api/admin/storage/load_all")
        data = admin.get("/api/admin/overview")["data"]
        rows = {row["mount_path"]: row for row in data["storages"]}
        assert rows["/files"]["is_up"]
        assert rows["/files"]["free_bytes"] > 0
        assert not rows[mount]["is_up"]
        assert "not exists" in rows[mount]["status"]
    assert {row["kind"] for row in data["tasks"]} >= {"upload", "copy", "index"}
    assert data["index"]["waiting_changes"] >= 0
    assert data["machine"]["requests"] > 0
    assert data["machine"]["processes"]


def test_overview_lists_failed_tasks(admin: Client, folder: str) -> None:
    send(admin, "put", f"{folder}/none/{'x' * 300}", b"x")
    data = admin.get("/api/admin/overview")["data"]
    assert all(set(row) == {"kind", "id", "name", "error", "end_time"} for row in data["failures"])


def test_overview_is_for_administrators(service: Service, admin: Client) -> None:
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS) as member:
        assert member.get("/api/admin/overview")["code"] == 403

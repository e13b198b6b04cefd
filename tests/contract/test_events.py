"""Every sample in `events/` through its deployed function, in an order in which they make sense."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from mangrove.local import template
from tests import lambdas

pytestmark = pytest.mark.xdist_group("cloud")  # one deployment for both modules that send the samples

EVENTS = Path(__file__).resolve().parents[2] / "events"
SUFFIX = "https://github.com/alist-org/alist"
ORDER = [
    "site/ping",
    "site/ping_head",
    "site/public_settings",
    "site/archive_extensions",
    "site/offline_download_tools",
    "site/favicon",
    "site/robots",
    "site/manifest",
    "auth/login",
    "auth/login_hash",
    "auth/me",
    "auth/me_update",
    "auth/2fa_generate",
    "auth/2fa_verify",
    "auth/sshkey_add",
    "auth/sshkey_list",
    "auth/sshkey_delete",
    "auth/logout",
    "users/create",
    "users/list",
    "users/get",
    "users/update",
    "users/cancel_2fa",
    "users/del_cache",
    "users/sshkey_list",
    "users/sshkey_delete",
    "users/delete",
    "metas/create",
    "metas/list",
    "metas/get",
    "metas/update",
    "metas/delete",
    "settings/list",
    "settings/get",
    "settings/save",
    "settings/delete",
    "settings/default",
    "settings/reset_token",
    "settings/set_aria2",
    "settings/set_qbit",
    "storages/create",
    "storages/list",
    "storages/get",
    "storages/update",
    "storages/disable",
    "storages/enable",
    "storages/load_all",
    "storages/delete",
    "storages/driver_list",
    "storages/driver_names",
    "storages/driver_info",
    "files/mkdir",
    "uploads/put",
    "uploads/form",
    "files/list",
    "files/list_get",
    "files/get",
    "files/get_get",
    "files/dirs",
    "files/dirs_get",
    "files/link",
    "files/other",
    "downloads/d_get",
    "downloads/p_get",
    "downloads/d_head",
    "downloads/p_head",
    "files/archive_meta",
    "files/archive_meta_get",
    "files/archive_list",
    "files/archive_list_get",
    "downloads/ae_get",
    "downloads/ae_head",
    "files/rename",
    "files/batch_rename",
    "files/regex_rename",
    "files/copy",
    "files/move",
    "files/recursive_move",
    "files/remove_empty_directory",
    "files/remove",
    "tasks/undone",
    "tasks/done",
    "tasks/info",
    "tasks/cancel",
    "tasks/retry",
    "tasks/cancel_some",
    "tasks/retry_some",
    "tasks/clear_succeeded",
    "tasks/retry_failed",
    "tasks/delete_some",
    "tasks/clear_done",
    "tasks/delete",
    "tasks/admin_undone",
    "tasks/admin_done",
    "tasks/admin_info",
    "tasks/admin_cancel",
    "tasks/admin_retry",
    "tasks/admin_cancel_some",
    "tasks/admin_retry_some",
    "tasks/admin_clear_succeeded",
    "tasks/admin_retry_failed",
    "tasks/admin_delete_some",
    "tasks/admin_clear_done",
    "tasks/admin_delete",
    "transfer/plan",
    "transfer/move",
    "transfer/settle",
    "files/add_offline_download",
    "download/begin",
    "download/poll",
    "download/settle",
    "files/archive_decompress",
    "decompress/plan",
    "decompress/extract",
    "decompress/settle",
]
CODES = {  # envelope codes other than 200: tools that are not there, a made-up code, a driver without such a method
    "auth/2fa_verify": 400,
    "settings/set_aria2": 500,
    "settings/set_qbit": 500,
    "files/other": 500,
}
MORE = {"download/begin"}  # states that are followed by waiting
STATUS = {
    "downloads/d_get": 302,
    "downloads/d_head": 302,
    "downloads/p_get": 206,
    "downloads/p_head": 206,
}


MACHINES = {
    file.name.removesuffix(".asl.json"): json.loads(file.read_text())
    for file in (template.ROOT / "state_machines").glob("*.asl.json")
}


def test_each_route_has_one_sample_and_each_sample_a_route_or_a_state() -> None:
    files = [path for path in EVENTS.rglob("*.json") if path.parent.name not in MACHINES]
    samples = [json.loads(path.read_text())["routeKey"] for path in files]
    routes = [
        f"{spec.method} {spec.path}"
        for spec in template.routes()
        if spec.path != template.DEFAULT and not spec.path.startswith("/openlist")
    ]
    assert sorted(samples) == sorted(routes)
    states = {f"{path.parent.name}/{path.stem}" for path in EVENTS.rglob("*.json") if path.parent.name in MACHINES}
    assert states == {
        f"{name}/{state.lower()}"
        for name, machine in MACHINES.items()
        for state, value in machine["States"].items()
        if value["Type"] == "Task"
    }
    assert sorted(ORDER) == sorted(f"{path.parent.name}/{path.stem}" for path in EVENTS.rglob("*.json"))


class Facts:
    """What one answer gives to later samples."""

    def __init__(self) -> None:
        digest = sha256(f"{lambdas.ADMIN_PASSWORD}-{SUFFIX}".encode()).hexdigest()
        self.known = {"password": lambdas.ADMIN_PASSWORD, "hash": digest}

    def filled(self, name: str) -> dict[str, Any]:
        text = (EVENTS / f"{name}.json").read_text()
        for key, value in self.known.items():
            text = text.replace("{{" + key + "}}", value)
        event: dict[str, Any] = json.loads(text)
        return event

    def learn(self, name: str, data: Any) -> None:
        if name in ("auth/login", "auth/login_hash"):
            self.known["token"] = data["token"]
        if name == "files/get":
            self.known["sign"] = data["sign"]
        if name == "files/archive_meta":
            self.known["archive_sign"] = data["sign"]
        for key in ("task", "tasks"):
            if isinstance(data, dict) and data.get(key):
                self.known["tid"] = (data[key] if isinstance(data[key], dict) else data[key][0])["id"]


def test_samples_run_through_the_functions(cloud: lambdas.Cloud) -> None:
    samples(cloud)


def samples(cloud: lambdas.Cloud) -> None:
    """Run them all, and see what came of them; once in a deployment."""
    if cloud.sampled:
        return
    cloud.sampled = True
    cloud.start()
    facts = Facts()
    for name in ORDER:
        if name == "auth/logout":
            continue  # the last one
        run(cloud, facts, name)
    cloud.drive()
    assert listed(cloud, facts, "/files") == ["by tasks", "hello world.txt"]
    assert listed(cloud, facts, "/files/by tasks") == ["letters", "downloaded.txt", "file", "letters.zip"]
    assert listed(cloud, facts, "/files/by tasks/letters/1977") == ["hello.txt"]
    run(cloud, facts, "auth/logout")
    assert run(cloud, facts, "auth/me", code=401)["message"] == "token is invalidated"


def listed(cloud: lambdas.Cloud, facts: Facts, path: str) -> list[str]:
    """Names in a folder of the storage that a deployment begins with."""
    event = facts.filled("files/list") | {"body": json.dumps({"path": path, "refresh": True})}
    content = json.loads(cloud.function("functions/api/files")(event)["body"])["data"]
    assert content["provider"] == "S3"
    return [entry["name"] for entry in content["content"]]


def run(cloud: lambdas.Cloud, facts: Facts, name: str, code: int | None = None) -> Any:
    if name in BEFORE:
        BEFORE[name](cloud, facts)
    if name.partition("/")[0] in MACHINES:
        answer = cloud.function(f"functions/workers/{name}")(facts.filled(name))
        assert (answer["tid"], answer["more"]) == (facts.known["tid"], name in MORE), (name, answer)
        return answer
    return answered(facts, name, cloud.function(f"functions/api/{name.partition('/')[0]}")(facts.filled(name)), code)


def answered(facts: Facts, name: str, answer: dict[str, Any], code: int | None = None) -> Any:
    """The envelope, when there is one."""
    body = base64.b64decode(answer["body"]).decode() if answer["isBase64Encoded"] else answer["body"]
    assert answer["statusCode"] == STATUS.get(name, 200), (name, answer)
    if answer["statusCode"] != 200 or not body.startswith('{"code"'):
        return None
    envelope = json.loads(body)
    assert envelope["code"] == (code or CODES.get(name, 200)), (name, envelope)
    if name.endswith("_some"):
        assert envelope["data"] == {}, (name, envelope)
    facts.learn(name, envelope["data"])
    return envelope


def uploaded(cloud: lambdas.Cloud, facts: Facts) -> None:
    """A task that stores a file and is not begun yet."""
    event = facts.filled("uploads/put")
    event["headers"] |= {"as-task": "true", "file-path": "/files/by%20tasks/file"}
    answered(facts, "uploads/put", cloud.function("functions/api/uploads")(event))


def packed(cloud: lambdas.Cloud, facts: Facts) -> None:
    """An archive that can be looked into."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("1977/hello.txt", "hello")
    event = facts.filled("uploads/put") | {"body": base64.b64encode(content.getvalue()).decode()}
    event["headers"] |= {"content-length": str(len(content.getvalue())), "file-path": "/files/by%20tasks/letters.zip"}
    answered(facts, "uploads/put", cloud.function("functions/api/uploads")(event | {"isBase64Encoded": True}))


def reachable(cloud: lambdas.Cloud, facts: Facts) -> None:
    """A file at an address that the administrator allows to be asked."""
    facts.known["url"] = cloud.origin({"/downloaded.txt": b"from elsewhere"}) + "/downloaded.txt"
    rows = [{"key": "offline_download_allowed_hosts", "value": "127.0.0.1"}]
    saving = facts.filled("settings/save") | {"body": json.dumps(rows)}
    answered(facts, "settings/save", cloud.function("functions/api/settings")(saving))


def driven(cloud: lambdas.Cloud, facts: Facts) -> None:
    """What was begun is done."""
    cloud.drive()


BEFORE: dict[str, Callable[[lambdas.Cloud, Facts], None]] = {  # what a sample needs
    "files/archive_meta": packed,
    "files/add_offline_download": reachable,
    "tasks/undone": uploaded,
    "tasks/retry": driven,
    "tasks/retry_some": driven,
    "tasks/clear_succeeded": driven,
    "tasks/delete_some": uploaded,
    "tasks/delete": uploaded,
    "tasks/admin_undone": uploaded,
    "tasks/admin_retry": driven,
    "tasks/admin_retry_some": driven,
    "tasks/admin_clear_succeeded": driven,
    "tasks/admin_delete_some": uploaded,
    "tasks/admin_delete": uploaded,
    "transfer/plan": uploaded,
}


def test_a_peer_prefix_reaches_the_same_functions(cloud: lambdas.Cloud) -> None:
    facts = Facts()
    event = facts.filled("site/ping")
    event["rawPath"] = event["requestContext"]["http"]["path"] = "/openlist/ping"
    assert cloud.function("functions/api/site")(event)["body"] == "pong"


def test_an_unknown_path_is_a_404_envelope(cloud: lambdas.Cloud) -> None:
    event = Facts().filled("site/ping")
    event["rawPath"] = event["requestContext"]["http"]["path"] = "/api/nothing"
    answer = cloud.function("functions/api/site")(event)
    assert (answer["statusCode"], json.loads(answer["body"])["code"]) == (200, 404)


def test_a_body_that_a_function_cannot_carry_is_refused(cloud: lambdas.Cloud) -> None:
    facts = Facts()
    run(cloud, facts, "auth/login")
    event = facts.filled("uploads/put")
    event["headers"]["content-length"] = "5000000"
    answer = json.loads(cloud.function("functions/api/uploads")(event)["body"])
    assert answer["code"] == 413

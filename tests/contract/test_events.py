"""Every sample in `events/` through its deployed function, each after those that it needs."""

from __future__ import annotations

import base64
import io
import json
import time
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any

import httpx
import pytest

from deployment.generate.events import read_samples
from mangrove.core import deadlines
from mangrove.standalone import template
from mangrove.tasks.index import indexing
from tests.contract.scenarios import EVENTS, Person
from tests.support import lambdas

pytestmark = pytest.mark.xdist_group("cloud")  # one deployment for both modules that send the samples

ORDER = [sample.name for sample in read_samples()]
SUFFIX = "https://github.com/alist-org/alist"
CODES = {  # envelope codes other than 200: tools that are not there, a made-up code, a driver without such a method
    "auth/2fa_verify": 400,
    "auth/passkey_finish_login": 400,  # `scenarios` answers a challenge
    "auth/passkey_finish_registration": 400,
    "auth/passkey_delete": 404,
    "auth/session_evict": 404,
    "users/session_evict": 404,
    "auth/login_ldap": 403,  # there is no directory and no identity provider
    "auth/sso": 403,
    "auth/sso_callback": 403,
    "auth/sso_get_id": 403,
    "auth/sso_get_token": 403,
    "metas/lock_delete": 404,
    "settings/set_aria2": 500,
    "settings/set_qbit": 500,
    "files/events": 404,  # not in the cloud
    "files/other": 500,
    "files/trash_restore": 400,  # nothing of that name is in the trash
    "files/versions": 500,  # there is no such file
    "files/versions_by_query": 500,
    "files/versions_restore": 500,
}
DROP_PART_BYTES = 5 << 20  # the least that S3 takes
WAITING_STATES = {"download/begin"}  # states that are followed by waiting
STATUS = {
    "mcp/get": 405,
    "mcp/delete": 405,
    "mcp/tools_list": 404,  # it is off; `mcp_scenario` switches it on
    "downloads/d_get": 302,
    "downloads/p_get": 206,
    "uploads/sd_put": 201,
    "downloads/sad_get": 403,
    "downloads/sad_head": 403,
    "downloads/p_head": 206,
}


MACHINES = {
    file.name.removesuffix(".asl.json"): json.loads(file.read_text())
    for file in (template.ROOT / "state_machines").glob("*.asl.json")
}


SERVICES = {"transfer_identity", "bucket_events"}  # functions that other services of AWS call, in scenarios


def test_each_route_has_one_sample_and_each_sample_a_route_or_a_state() -> None:
    files = [path for path in EVENTS.rglob("*.json") if path.parent.name not in {*MACHINES, *SERVICES}]
    samples = [json.loads(path.read_text())["routeKey"] for path in files]
    routes = [
        f"{spec.method} {spec.path}"
        for spec in template.read_routes()
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
    every = [path for path in EVENTS.rglob("*.json") if path.parent.name not in SERVICES]
    assert sorted(ORDER) == sorted(f"{path.parent.name}/{path.stem}" for path in every)


class Values:
    """Values of earlier answers for later samples."""

    def __init__(self) -> None:
        digest = sha256(f"{lambdas.ADMIN_PASSWORD}-{SUFFIX}".encode()).hexdigest()
        basic = base64.b64encode(f"admin:{lambdas.ADMIN_PASSWORD}".encode()).decode()
        self.known = {"password": lambdas.ADMIN_PASSWORD, "hash": digest, "basic": basic}

    def fill(self, name: str) -> dict[str, Any]:
        text = (EVENTS / f"{name}.json").read_text()
        for key, value in self.known.items():
            text = text.replace("{{" + key + "}}", value)
        event: dict[str, Any] = json.loads(text)
        return event

    def learn(self, name: str, data: Any) -> None:
        if name in ("auth/login", "auth/login_hash"):
            self.known["token"] = data["token"]
        if name == "uploads/multipart_init":
            self.known["upload_id"] = data["upload_id"]
        if name == "shares/create":
            self.known["share_id"] = data["id"]
        if name == "files/get":
            self.known["sign"] = data["sign"]
        if name == "files/zip":
            self.known["zip_query"] = data["url"].partition("?")[2]
        if name == "files/archive_meta":
            self.known["archive_sign"] = data["sign"]
        for key in ("task", "tasks"):
            if isinstance(data, dict) and data.get(key) and name != "tasks/overview":  # which names kinds alone
                self.known["tid"] = (data[key] if isinstance(data[key], dict) else data[key][0])["id"]


@pytest.mark.long
def test_samples_run_through_the_functions(cloud: lambdas.Cloud) -> None:
    run_samples(cloud)


def run_samples(cloud: lambdas.Cloud) -> None:
    """Run them all and look at the result; once in a deployment."""
    if cloud.sampled:
        return
    cloud.sampled = True
    cloud.start()
    values = Values()
    for name in ORDER:
        if name == "auth/logout":
            continue  # the last one
        run(cloud, values, name)
    cloud.run_executions()
    assert list_names(cloud, values, "/files") == ["by tasks", "removed", "batch.txt", "hello world.txt", "sent.txt"]
    assert list_names(cloud, values, "/files/by tasks") == [
        "letters",
        "downloaded.txt",
        "file",
        "in parts.txt",
        "letters.zip",
        "packed.zip",
    ]
    assert list_names(cloud, values, "/files/by tasks/letters/1977") == ["hello.txt"]
    run(cloud, values, "auth/logout")
    assert run(cloud, values, "auth/me", code=401)["message"] == "token is invalidated"


def list_names(cloud: lambdas.Cloud, values: Values, path: str) -> list[str]:
    """Names in a folder of the storage that a deployment begins with."""
    event = values.fill("files/list") | {"body": json.dumps({"path": path, "refresh": True})}
    content = json.loads(cloud.get_function_in("functions/api/files")(event)["body"])["data"]
    assert content["provider"] == "S3"
    return [entry["name"] for entry in content["content"]]


def run(cloud: lambdas.Cloud, values: Values, name: str, code: int | None = None) -> Any:
    if name in PREPARATIONS:
        PREPARATIONS[name](cloud, values)
    if name.partition("/")[0] in MACHINES:
        answer = cloud.get_function_in(f"functions/workers/{name}")(values.fill(name))
        assert (answer["tid"], answer["more"]) == (values.known["tid"], name in WAITING_STATES), (name, answer)
        return answer
    function = cloud.get_function_in(f"functions/api/{name.partition('/')[0]}")
    return check_answer(values, name, function(values.fill(name)), code)


def check_answer(values: Values, name: str, answer: dict[str, Any], code: int | None = None) -> Any:
    """The envelope, when there is one."""
    body = base64.b64decode(answer["body"]).decode(errors="replace") if answer["isBase64Encoded"] else answer["body"]
    assert answer["statusCode"] == STATUS.get(name, 200), (name, answer)
    if answer["statusCode"] != 200 or not body.startswith('{"code"'):
        return None
    envelope = json.loads(body)
    assert envelope["code"] == (code or CODES.get(name, 200)), (name, envelope)
    if name.endswith("_some"):
        assert envelope["data"] == {}, (name, envelope)
    values.learn(name, envelope["data"])
    return envelope


def open_upload(cloud: lambdas.Cloud, values: Values) -> None:
    """Open a task that stores a file; its execution has not run yet."""
    event = values.fill("uploads/put")
    event["headers"] |= {"as-task": "true", "file-path": "/files/by%20tasks/file"}
    check_answer(values, "uploads/put", cloud.get_function_in("functions/api/uploads")(event))


def open_removal(cloud: lambdas.Cloud, values: Values) -> None:
    """Open a task that removes what a request has no time for, at the pace of the first name."""
    from tests.contract.worker_faults import once  # which imports this module

    names = [f"{number:02}" for number in range(25)]
    for name in names:
        cloud.client("s3").put_object(Bucket=cloud.refs["Files"], Key=f"removed/{name}", Body=b"x")
    slow = partial(time.sleep, deadlines.PACE_SAMPLE_SECONDS)  # at this pace the others would take too long
    once(cloud.get_function("FilesFunction"), "removed/00", slow, right="s3:DeleteObject")
    event = values.fill("files/remove") | {"body": json.dumps({"dir": "/files/removed", "names": names})}
    check_answer(values, "files/remove", cloud.get_function_in("functions/api/files")(event))
    machine = cloud.refs["RemoveMachine"]
    (execution,) = cloud.client("stepfunctions").list_executions(stateMachineArn=machine)["executions"]
    values.known["tid"] = execution["name"].rpartition("-")[0]


def begin_multipart(cloud: lambdas.Cloud, values: Values) -> None:
    """Begin another upload in parts."""
    run(cloud, values, "uploads/multipart_init")


def upload_archive(cloud: lambdas.Cloud, values: Values) -> None:
    """Upload an archive that can be read."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("1977/hello.txt", "hello")
    event = values.fill("uploads/put") | {"body": base64.b64encode(content.getvalue()).decode()}
    event["headers"] |= {"content-length": str(len(content.getvalue())), "file-path": "/files/by%20tasks/letters.zip"}
    check_answer(
        values, "uploads/put", cloud.get_function_in("functions/api/uploads")(event | {"isBase64Encoded": True})
    )


def allow_origin(cloud: lambdas.Cloud, values: Values) -> None:
    """Serve a file at an address, and allow downloads from it."""
    values.known["url"] = cloud.serve_files({"/downloaded.txt": b"from elsewhere"}) + "/downloaded.txt"
    rows = [{"key": "offline_download_allowed_hosts", "value": "127.0.0.1"}]
    saving = values.fill("settings/save") | {"body": json.dumps(rows)}
    check_answer(values, "settings/save", cloud.get_function_in("functions/api/settings")(saving))


def save_settings(cloud: lambdas.Cloud, values: Values, **settings: str) -> None:
    """Save settings as an administrator does."""
    rows = [{"key": key, "value": value} for key, value in settings.items()]
    saving = values.fill("settings/save") | {"body": json.dumps(rows)}
    check_answer(values, "settings/save", cloud.get_function_in("functions/api/settings")(saving))


def allow_passkeys(cloud: lambdas.Cloud, values: Values) -> None:
    """Switch passkeys on."""
    save_settings(cloud, values, webauthn_login_enabled="true")


def finish_tasks(cloud: lambdas.Cloud, values: Values) -> None:
    """Let the open tasks end."""
    cloud.run_executions()


def switch_index_on(cloud: lambdas.Cloud, values: Values) -> None:
    """Have all storages indexed, and let that end."""
    save_settings(cloud, values, search_index="database", auto_update_index="true")
    cloud.run_executions()


def name_index_task(cloud: lambdas.Cloud, values: Values) -> None:
    """The task of the storage that a deployment begins with."""
    values.known["tid"] = indexing.make_task_id(1)


PREPARATIONS: dict[str, Callable[[lambdas.Cloud, Values], None]] = {  # what a sample needs
    "auth/passkey_begin_login": allow_passkeys,
    "uploads/multipart_abort": begin_multipart,
    "files/archive_meta": upload_archive,
    "files/add_offline_download": allow_origin,
    "tasks/undone": open_upload,
    "remove/remove": open_removal,
    "tasks/retry": finish_tasks,
    "tasks/retry_some": finish_tasks,
    "tasks/clear_succeeded": finish_tasks,
    "tasks/delete_some": open_upload,
    "tasks/delete": open_upload,
    "tasks/admin_undone": open_upload,
    "tasks/admin_retry": finish_tasks,
    "tasks/admin_retry_some": finish_tasks,
    "tasks/admin_clear_succeeded": finish_tasks,
    "tasks/admin_delete_some": open_upload,
    "tasks/admin_delete": open_upload,
    "transfer/plan": open_upload,
    "search/progress": switch_index_on,
    "index/plan": name_index_task,
    "search/update": finish_tasks,
    "search/clear": finish_tasks,
}


def test_a_peer_prefix_reaches_the_same_functions(cloud: lambdas.Cloud) -> None:
    values = Values()
    event = values.fill("site/ping")
    event["rawPath"] = event["requestContext"]["http"]["path"] = "/openlist/ping"
    assert cloud.get_function_in("functions/api/site")(event)["body"] == "pong"


def test_receipt_of_a_drop_into_the_bucket_has_its_sha256(cloud: lambdas.Cloud) -> None:
    """The parts go to the bucket, whose own checksum of a joined file is not that of its bytes."""
    admin, visitor = Person(cloud).sign_in("admin", lambdas.ADMIN_PASSWORD), Person(cloud)
    admin.gets("files/mkdir", path="/files/dropped")
    id = admin.gets("shares/create", files=["/files/dropped"], mode="drop")["id"]
    session = {"x-share-session": "a random text"}

    def ask(sample: str, body: str = "", **headers: str) -> Any:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        answer = visitor.raw(f"uploads/{sample}", {"headers": session | named} | ({"body": body} if body else {}))
        envelope = json.loads(answer["body"])
        assert envelope["code"] == 200, envelope
        return envelope["data"]

    content = bytes(range(256)) * (DROP_PART_BYTES // 256) + b"the end"
    sizes = {"x_file_size": str(len(content)), "x_chunk_size": str(DROP_PART_BYTES)}
    upload_id = ask("multipart_init", file_path=f"/@s/{id}/sent.bin", **sizes)["upload_id"]
    parts = [content[:DROP_PART_BYTES], content[DROP_PART_BYTES:]]
    chunks = [
        {"index": index, "crc32": base64.b64encode(zlib.crc32(part).to_bytes(4)).decode()}
        for index, part in enumerate(parts)
    ]
    signed = ask("multipart_sign", json.dumps({"upload_id": upload_id, "chunks": chunks}))["chunks"]
    for part, chunk in zip(parts, signed, strict=True):
        sent = httpx.request(
            chunk["method"], chunk["url"], content=part, headers=chunk["headers"], trust_env=False, timeout=60
        )
        assert sent.status_code == 200, sent.text
    receipt = ask("multipart_complete", x_upload_id=upload_id)["receipt"]
    assert receipt == {
        "name": "sent.bin",
        "size": len(content),
        "time": receipt["time"],
        "sha256": sha256(content).hexdigest(),
    }
    cloud.run_executions()
    stored = cloud.client("s3").get_object(Bucket=cloud.refs["Files"], Key="dropped/sent.bin")["Body"].read()
    assert sha256(stored).hexdigest() == receipt["sha256"]
    admin.gets("files/remove", dir="/files", names=["dropped"])  # the next test counts the files of the deployment
    cloud.run_executions()


def test_an_unknown_path_is_a_404_envelope(cloud: lambdas.Cloud) -> None:
    event = Values().fill("site/ping")
    event["rawPath"] = event["requestContext"]["http"]["path"] = "/api/nothing"
    answer = cloud.get_function_in("functions/api/site")(event)
    assert (answer["statusCode"], json.loads(answer["body"])["code"]) == (200, 404)


def test_a_body_that_a_function_cannot_carry_is_refused(cloud: lambdas.Cloud) -> None:
    values = Values()
    run(cloud, values, "auth/login")
    event = values.fill("uploads/put")
    event["headers"]["content-length"] = "5000000"
    answer = json.loads(cloud.get_function_in("functions/api/uploads")(event)["body"])
    assert answer["code"] == 413

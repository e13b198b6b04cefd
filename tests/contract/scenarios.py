"""A person who sends events to the functions, and requests that need all rights of the functions."""

from __future__ import annotations

import base64
import gzip
import io
import json
import time
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pyotp

from mangrove.cloud.platform import MAX_FILE_BYTES
from tests.contract.api.accounts import wait_for_step
from tests.contract.request_key_scenario import repeat
from tests.support import lambdas
from tests.support.authenticator import Authenticator

EVENTS = Path(__file__).resolve().parents[2] / "events"


class Person:
    """A person who sends events to the functions."""

    def __init__(self, cloud: lambdas.Cloud, token: str = "") -> None:
        self.cloud = cloud
        self.token = token

    def raw(self, sample: str, event: dict[str, Any]) -> dict[str, Any]:
        whole: dict[str, Any] = json.loads((EVENTS / f"{sample}.json").read_text())
        whole["requestContext"]["http"] |= event.pop("http", {})
        headers = whole["headers"] | {"authorization": self.token} | event.pop("headers", {})
        answer: dict[str, Any] = self.cloud.get_function_in(f"functions/api/{sample.partition('/')[0]}")(
            whole | event | {"headers": headers}
        )
        return answer

    def asks(self, sample: str, query: str = "", **body: Any) -> dict[str, Any]:
        """The envelope."""
        answer = self.raw(sample, {"rawQueryString": query, "body": json.dumps(body)})
        envelope: dict[str, Any] = json.loads(answer["body"])
        return envelope

    def gets(self, sample: str, query: str = "", **body: Any) -> Any:
        """The data of an envelope that must say success."""
        envelope = self.asks(sample, query, **body)
        assert envelope["code"] == 200, (sample, envelope)
        return envelope["data"]

    @property
    def origin(self) -> str:
        """The address that the samples are sent to."""
        event = json.loads((EVENTS / "auth/me.json").read_text())
        return f"https://{event['requestContext']['domainName']}"

    def finish(self, sample: str, session: str, credential: Any) -> None:
        """Answer a challenge of WebAuthn."""
        answer = self.raw(sample, {"headers": {"session": session}, "body": json.dumps(credential)})
        envelope = json.loads(answer["body"])
        assert envelope["code"] == 200, (sample, envelope)

    def puts(self, path: str, content: bytes = b"bytes") -> int:
        """The code that an upload is answered with."""
        code: int = self.sends(path, content)["code"]
        return code

    def sends(self, path: str, content: bytes, **headers: str) -> Any:
        """The envelope that an upload is answered with; keywords are headers, `_` for `-`."""
        sent = {"file-path": quote(path), "content-length": str(len(content))}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        body = base64.b64encode(content).decode()
        return json.loads(self.raw("uploads/put", {"headers": sent, "body": body, "isBase64Encoded": True})["body"])

    def tasks(self, kind: str, verb: str, **query: str) -> Any:
        """Return the answer of the functions of tasks."""
        path = f"/api/task/{kind}/{verb}"
        answer = self.raw(f"tasks/{verb}", {"http": {"path": path}, "rawQueryString": urlencode(query)})
        envelope = json.loads(answer["body"])
        assert envelope["code"] == 200, (verb, envelope)
        return envelope["data"]

    def transfer(self, verb: str, source: str, target: str, *names: str, **more: Any) -> list[str]:
        """Ids of the tasks that a copy or move begins."""
        before = self.tasks(verb, "undone") or []
        self.gets(f"files/{verb}", src_dir=source, dst_dir=target, names=names, **more)
        known = {row["id"] for row in before}
        return [row["id"] for row in self.tasks(verb, "undone") if row["id"] not in known]

    def read_outcome(self, kind: str, id: str) -> tuple[str, str]:
        """State and error of a task."""
        (row,) = self.tasks(kind, "info", tid=id)
        return row["state"], row["error"]

    def downloads(self, path: str, sign: str) -> dict[str, Any]:
        event = json.loads((EVENTS / "downloads/d_get.json").read_text())
        event["requestContext"]["http"]["path"] = f"/d{path}"
        return self.raw("downloads/d_get", event | {"rawQueryString": f"sign={sign}"})

    def sign_in(self, username: str, password: str, otp_code: str = "") -> Person:
        data = self.gets("auth/login", username=username, password=password, otp_code=otp_code)
        return Person(self.cloud, data["token"])


def accounts(admin: Person) -> None:
    """A lock-out, a second factor, keys, application passwords, other names."""
    anonymous = Person(admin.cloud)
    codes = [anonymous.asks("auth/login", username="nobody", password="wrong")["code"] for _ in range(7)]
    assert codes[0] != 429 and codes[-1] == 429

    bob = {
        "username": "bob",
        "password": "a long password",
        "base_path": "/",
        "role": 0,
        "permission": 1 << 14,
    }
    admin.gets("users/create", **bob)
    number = next(user["id"] for user in admin.gets("users/list", "")["content"] if user["username"] == "bob")
    person = anonymous.sign_in("bob", bob["password"])
    assert person.tasks("copy", "done") == [], "of one's own key alone"
    secret = person.gets("auth/2fa_generate")["secret"]
    wait_for_step(12)
    before, code = (pyotp.TOTP(secret).at(int(time.time()) + 30 * step) for step in (-1, 0))
    person.gets("auth/2fa_verify", code=before, secret=secret)
    assert anonymous.asks("auth/login", username="bob", password=bob["password"])["code"] == 402
    wrong = f"{(int(code) + 1) % 1_000_000:06}"
    assert anonymous.asks("auth/login", username="bob", password=bob["password"], otp_code=wrong)["code"] == 402
    person = anonymous.sign_in("bob", bob["password"], code)
    key = json.loads(json.loads((EVENTS / "auth/sshkey_add.json").read_text())["body"])["key"]
    for title in ("one", "two", "three"):
        person.gets("auth/sshkey_add", title=title, key=key)
    first, second, _ = (row["id"] for row in person.gets("auth/sshkey_list")["content"])
    person.gets("auth/sshkey_delete", f"id={first}")
    admin.gets("users/sshkey_delete", f"id={second}")
    for title in ("phone", "television", "car"):
        person.gets("auth/app_password_add", title=title)
    first, second, _ = (row["id"] for row in person.gets("auth/app_password_list")["content"])
    person.gets("auth/app_password_delete", f"id={first}")
    assert admin.gets("users/app_password_list", f"uid={number}")["total"] == 2
    admin.gets("users/app_password_delete", f"id={second}")
    authenticator = register_passkey(admin)
    begun = admin.gets("auth/passkey_begin_login")
    admin.finish("auth/passkey_finish_login", begun["session"], authenticator.get(begun["options"]))
    (row,) = admin.gets("auth/passkey_list")
    admin.gets("auth/passkey_delete", id=row["id"])
    share(admin, person)
    person.gets("auth/me_update", username="bobby", password="another password", sso_id="")
    admin.gets("users/update", **(bob | {"id": number, "username": "robert"}))
    admin.gets("users/delete", f"id={number}")
    change_own_factor(admin)


def register_passkey(person: Person) -> Authenticator:
    """Register a passkey; return the device that has it."""
    begun = person.gets("auth/passkey_begin_registration")
    authenticator = Authenticator(person.origin)
    person.finish("auth/passkey_finish_registration", begun["session"], authenticator.create(begun["options"]))
    return authenticator


def share(admin: Person, person: Person) -> None:
    """A share link of a user, which the user lists and an administrator made."""
    body = {"files": ["/files"], "creator": "bob"}
    id = admin.gets("shares/create", **body)["id"]
    assert admin.gets("shares/update", **(body | {"id": id, "accessed": 3}))["accessed"] == 3
    assert [row["id"] for row in person.gets("shares/list", page=1)["content"]] == [id]
    admin.puts("/files/shared.txt")
    admin.gets("shares/update", **(body | {"id": id, "pwd": "secret"}))
    visitor = Person(admin.cloud)
    for password, code in (("wrong", 403), ("secret", 200)):
        assert visitor.asks("files/list", path=f"/@s/{id}", password=password)["code"] == code
        event = {"http": {"path": f"/sd/{id}/shared.txt"}, "rawQueryString": f"pwd={password}"}
        assert visitor.raw("downloads/sd_get", event)["statusCode"] == code
    for sample, path, code in (("downloads/sd_get", "/sd/unknown/a", 404), ("shares/page_get", "/@s/neither", 200)):
        assert visitor.raw(sample, {"http": {"path": path}})["statusCode"] == code
    admin.gets("files/remove", dir="/files", names=["shared.txt"])


def enter_by_transfer_family(admin: Person) -> None:
    """Run the samples of requests of a Transfer Family server, for a user who may sign in and sees their files."""
    function = admin.cloud.get_function("TransferIdentity")

    def ask(sample: str, password: str = "") -> Any:
        text = (EVENTS / f"transfer_identity/{sample}.json").read_text()
        return function(json.loads(text.replace("{{password}}", password)))

    ann = {"username": "ann", "password": "a long password", "base_path": "/files/home", "role": 0}
    admin.gets("users/create", **ann, permission=0xFFFF)
    person = Person(admin.cloud).sign_in("ann", ann["password"])
    assert ask("key") == {} and ask("password", "wrong") == {}
    key = json.loads(json.loads((EVENTS / "auth/sshkey_add.json").read_text())["body"])["key"]
    person.gets("auth/sshkey_add", title="laptop", key=key)
    made = person.gets("auth/app_password_add", title="scanner")
    by_key = ask("key")
    assert by_key.pop("PublicKeys") == [key]
    assert ask("password", made["password"]) == ask("password", ann["password"]) == by_key
    bucket = admin.cloud.refs["Files"]
    assert json.loads(by_key["HomeDirectoryDetails"]) == [{"Entry": "/", "Target": f"/{bucket}/home"}]
    assert by_key["Role"] == f"arn:aws:iam::123456789012:role/{admin.cloud.refs['TransferRole']}"
    number = next(user["id"] for user in admin.gets("users/list", "")["content"] if user["username"] == "ann")
    admin.gets("users/delete", f"id={number}")
    assert ask("key") == ask("password", made["password"]) == {}


def change_own_factor(admin: Person) -> None:
    """Set and remove the administrator's second factor, which requires a code; the session continues."""
    wait_for_step(12)
    steps = [int(time.time()) + 30 * step for step in (-1, 0)]
    first, second = (pyotp.TOTP(admin.gets("auth/2fa_generate")["secret"]) for _ in range(2))
    admin.gets("auth/2fa_verify", code=first.at(steps[0]), secret=first.secret)
    assert admin.asks("auth/2fa_verify", code=second.at(steps[0]), secret=second.secret)["code"] == 401
    own = admin.gets("auth/me")["id"]
    assert admin.asks("users/cancel_2fa", f"id={own}")["code"] == 401
    admin.gets("users/cancel_2fa", f"id={own}&code={first.at(steps[1])}")


def configuration(admin: Person) -> None:
    """Move rules and storages, with a storage that fails, and one whose driver changes its own options."""
    rule = json.loads(json.loads((EVENTS / "metas/create.json").read_text())["body"])
    admin.gets("metas/create", **rule)
    number = admin.gets("metas/list")["content"][0]["id"]
    admin.gets("metas/update", **(rule | {"id": number, "path": "/files/elsewhere"}))
    admin.gets("metas/delete", f"id={number}")

    failing = {"mount_path": "/failing", "driver": "UrlTree", "addition": '{"url_structure": "nonsense"}'}
    answer = admin.asks("storages/create", **failing)
    assert answer["code"] == 500
    admin.gets("storages/load_all")
    admin.gets("storages/delete", f"id={answer['data']['id']}")

    addition = json.dumps({"url_structure": "f:https://example.com/f", "writable": True})
    links = {"mount_path": "/moved", "driver": "UrlTree", "addition": addition}
    number = admin.gets("storages/create", **links)["id"]
    admin.gets("storages/update", **(links | {"id": number, "mount_path": "/links"}))
    admin.gets("files/mkdir", path="/links/new")
    admin.gets("files/rename", path="/links/f", name="g")
    admin.gets("files/remove", dir="/links", names=["g"])
    assert admin.puts("/links/refused/file") == 500
    options = json.loads(admin.gets("storages/get", f"id={number}")["addition"])
    assert options["url_structure"] == "new:"
    admin.gets("storages/delete", f"id={number}")


def files(admin: Person) -> None:
    """The mount under the functions' own role: folders as a whole, the largest body, links that are followed."""
    largest = bytes(MAX_FILE_BYTES)
    for path, content in (("a.txt", b"a"), ("sub/b.txt", b"b"), ("largest", largest)):
        assert admin.puts(f"/files/album/{path}", content) == 200
    admin.gets("files/rename", path="/files/album", name="pictures")
    admin.gets("files/mkdir", path="/files/copies")
    admin.gets("files/copy", src_dir="/files/pictures", dst_dir="/files/copies", names=["sub"])
    assert admin.asks("files/get", path="/files/pictures/none")["code"] == 500
    assert httpx.get(admin.gets("files/link", path="/files/copies/sub/b.txt")["url"], timeout=60).content == b"b"
    sign = admin.gets("files/get", path="/files/pictures/a.txt")["sign"]
    assert httpx.get(admin.downloads("/files/pictures/a.txt", sign)["headers"]["location"], timeout=60).content == b"a"
    admin.gets("files/remove", dir="/files", names=["pictures", "copies"])
    assert admin.downloads("/files/pictures/a.txt", sign)["statusCode"] == 404
    repeated = [admin.sends("/files/repeated", b"x", as_task="true", idempotency_key="key") for _ in range(2)]
    assert repeated[0]["code"] == 200 and repeated[0] == repeated[1]
    repeat(admin.raw, "files/remove", dir="/files", names=["repeated"])
    listed = admin.gets("files/list", path="/files", refresh=True)["content"] or []
    assert not {entry["name"] for entry in listed} & {"album", "pictures", "copies"}
    stage_download(admin)
    stage_members(admin)
    hold_names(admin)
    upload_in_parts(admin)


def stage_download(admin: Person) -> None:
    """A text passes through the service, also one that is too large for its answer: that is staged once."""
    large, store = bytes(range(256)) * 20_000, admin.cloud.client("s3")
    store.put_object(Bucket=admin.cloud.refs["Files"], Key="large.txt", Body=large)
    sign = admin.gets("files/get", path="/files/large.txt")["sign"]
    for _ in range(2):
        event = {"http": {"path": "/p/files/large.txt"}, "rawQueryString": f"sign={sign}", "headers": {"range": ""}}
        answer = admin.raw("downloads/p_get", event)
        assert answer["statusCode"] == 302, answer
        assert httpx.get(answer["headers"]["location"], timeout=60).content == large
    staged = store.list_objects_v2(Bucket=admin.cloud.refs["Staging"], Prefix="served/")
    assert staged["KeyCount"] == 1
    admin.gets("files/remove", dir="/files", names=["large.txt"])


def stage_members(admin: Person) -> None:
    """Read files in archives, which pass through the service too: one that is too large for an answer, of known or
    unknown size, is staged once per archive. A damaged one never is.
    """
    large, store = bytes(range(256)) * 20_000, admin.cloud.client("s3")
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("in/large.txt", large)
        archive.writestr("small.txt", "small")
    broken = held.getvalue().replace(large[-512:], bytes(512), 1)
    archives = {"whole.zip": held.getvalue(), "broken.zip": broken, "large.txt.gz": gzip.compress(large)}
    for name, content in archives.items():
        store.put_object(Bucket=admin.cloud.refs["Files"], Key=name, Body=content)

    def ask(archive: str, inner: str, method: str = "GET") -> Any:
        sign = admin.gets("files/archive_meta", path=f"/files/{archive}")["sign"]
        event = {
            "http": {"method": method, "path": f"/ae/files/{archive}"},
            "rawQueryString": f"inner={inner}&sign={sign}",
        }
        return admin.raw("downloads/ae_get", event)

    def count_staged() -> int:
        count: int = store.list_objects_v2(Bucket=admin.cloud.refs["Staging"], Prefix="served/")["KeyCount"]
        return count

    before = count_staged()
    assert ask("whole.zip", "/small.txt")["body"] == "small"
    for number, (archive, inner) in enumerate((("whole.zip", "/in/large.txt"), ("large.txt.gz", "/large.txt")), 1):
        assert ask(archive, inner, "HEAD")["statusCode"] == 200
        for _ in range(2):
            redirect = ask(archive, inner)
            assert redirect["statusCode"] == 302, redirect
            answer = httpx.get(redirect["headers"]["location"], timeout=60)
            assert (answer.content, answer.headers["content-type"]) == (large, "text/plain; charset=utf-8")
        assert count_staged() == before + number
    assert ask("broken.zip", "/in/large.txt")["statusCode"] == 500
    assert count_staged() == before + 2
    admin.gets("files/remove", dir="/files", names=list(archives))


def upload_in_parts(admin: Person) -> None:
    """Chunks that wait in staging, as Alias takes none itself; an upload that is given up."""
    send_parts(admin, "multipart_abort", begin_multipart(admin, "/pair/new/given up"))
    id = begin_multipart(admin, "/pair/new/parts")
    send_parts(admin, "multipart_chunk", id, "hello mangrove\n")
    tasks = [send_parts(admin, "multipart_complete", id)["task"]["id"] for _ in range(2)]
    assert tasks[0] == tasks[1]
    admin.cloud.run_executions()
    assert admin.gets("files/get", path="/pair/new/parts")["size"] == 15


def lose_uploads(admin: Person) -> None:
    """Start uploads as a user who is then deleted: the sweep removes them."""
    bob = {
        "username": "uploader",
        "password": "a long password",
        "base_path": "/",
        "role": 0,
        "permission": 8 | 1 << 14,
    }
    admin.gets("users/create", **bob)
    person = Person(admin.cloud).sign_in("uploader", "a long password")
    for path in ("/files/lost", "/pair/new/lost"):
        begin_multipart(person, path)
    id = person.gets("shares/create", files=["/files"], mode="drop")["id"]
    begin_multipart(Person(admin.cloud), f"/@s/{id}/sent.txt")
    number = next(user["id"] for user in admin.gets("users/list", "")["content"] if user["username"] == "uploader")
    admin.gets("users/delete", f"id={number}")


def begin_multipart(person: Person, path: str) -> str:
    """The id of a new upload in parts."""
    answer = json.loads(person.raw("uploads/multipart_init", {"headers": {"file-path": quote(path)}})["body"])
    assert answer["code"] == 200, answer
    id: str = answer["data"]["upload_id"]
    return id


def send_parts(person: Person, sample: str, id: str, body: str = "") -> Any:
    """The data that a request about an upload in parts is answered with."""
    event = {"headers": {"x-upload-id": id}} | ({"body": body} if body else {})
    answer = json.loads(person.raw(f"uploads/{sample}", event)["body"])
    assert answer["code"] == 200, (sample, answer)
    return answer["data"]


def hold_names(admin: Person) -> None:
    """Change two folders under one name, which cannot refuse a taken name atomically: each change locks it."""
    folders = ("/files/one", "/files/two")
    for folder in folders:
        admin.gets("files/mkdir", path=folder)
    policies = {"write_conflict_policy": "all", "put_conflict_policy": "all"}
    pair = json.dumps({"paths": "".join(f"pair:{folder}\n" for folder in folders)} | policies)
    admin.gets("storages/create", mount_path="/pair", driver="Alias", addition=pair)
    assert admin.puts("/pair/new/a.txt", b"a") == 200
    assert admin.sends("/pair/new/a.txt", b"b", overwrite="false")["code"] == 403
    admin.gets("files/rename", path="/pair/new/a.txt", name="b.txt")
    for folder in folders:
        assert [entry["name"] for entry in admin.gets("files/list", path=f"{folder}/new")["content"]] == ["b.txt"]

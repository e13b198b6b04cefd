"""The rights that the template gives to each function are enough for what it does, and no more than it ever uses."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

import httpx
import pyotp
import pytest
from moto.s3.models import s3_backends

from mangrove.drivers import s3upload
from mangrove.local import template
from mangrove.tasks import carry
from mangrove.web.serving import LARGEST_CLOUD_ANSWER
from tests import lambdas, recorder, servers
from tests.contract.test_events import EVENTS, ORDER, Facts, run
from tests.recorder import Right

FUNCTIONS = dict(template.resources("AWS::Serverless::Function"))
LARGEST_EVENT = 6 << 20  # bytes that Lambda hands to a function
UNUSED = {  # rights for what is too dear for a test
    ("FilesFunction", "s3:AbortMultipartUpload", "{Files}/*"): "a copy above 5 GiB goes in parts and may fail",
}


class Person:
    """Somebody who sends events to the functions."""

    def __init__(self, cloud: lambdas.Cloud, token: str = "") -> None:
        self.cloud = cloud
        self.token = token

    def raw(self, sample: str, event: dict[str, Any]) -> dict[str, Any]:
        whole: dict[str, Any] = json.loads((EVENTS / f"{sample}.json").read_text())
        whole["requestContext"]["http"] |= event.pop("http", {})
        headers = whole["headers"] | {"authorization": self.token} | event.pop("headers", {})
        answer: dict[str, Any] = self.cloud.function(f"functions/api/{sample.partition('/')[0]}")(
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
        """What the board answers."""
        path = f"/api/task/{kind}/{verb}"
        answer = self.raw(f"tasks/{verb}", {"http": {"path": path}, "rawQueryString": urlencode(query)})
        envelope = json.loads(answer["body"])
        assert envelope["code"] == 200, (verb, envelope)
        return envelope["data"]

    def carries(self, verb: str, source: str, target: str, *names: str, **more: Any) -> list[str]:
        """Ids of the tasks that a copy or move begins."""
        before = self.tasks(verb, "undone") or []
        self.gets(f"files/{verb}", src_dir=source, dst_dir=target, names=names, **more)
        known = {row["id"] for row in before}
        return [row["id"] for row in self.tasks(verb, "undone") if row["id"] not in known]

    def told(self, kind: str, id: str) -> tuple[str, str]:
        """State and error of a task."""
        (row,) = self.tasks(kind, "info", tid=id)
        return row["state"], row["error"]

    def downloads(self, path: str, sign: str) -> dict[str, Any]:
        event = json.loads((EVENTS / "downloads/d_get.json").read_text())
        event["requestContext"]["http"]["path"] = f"/d{path}"
        return self.raw("downloads/d_get", event | {"rawQueryString": f"sign={sign}"})

    def signed_in(self, username: str, password: str, otp_code: str = "") -> Person:
        data = self.gets("auth/login", username=username, password=password, otp_code=otp_code)
        return Person(self.cloud, data["token"])


def samples(cloud: lambdas.Cloud) -> None:
    facts = Facts()
    for name in ORDER:
        if name != "auth/logout":
            run(cloud, facts, name)
    run(cloud, facts, "auth/logout")


def accounts(admin: Person) -> None:
    """A lock-out, a second factor, keys, other names."""
    nobody = Person(admin.cloud)
    codes = [nobody.asks("auth/login", username="nobody", password="wrong")["code"] for _ in range(7)]
    assert codes[0] != 429 and codes[-1] == 429

    bob = {"username": "bob", "password": "a long password", "base_path": "/", "role": 0, "permission": 0}
    admin.gets("users/create", **bob)
    number = next(user["id"] for user in admin.gets("users/list", "")["content"] if user["username"] == "bob")
    person = nobody.signed_in("bob", bob["password"])
    secret = person.gets("auth/2fa_generate")["secret"]
    code = pyotp.TOTP(secret).now()
    person.gets("auth/2fa_verify", code=code, secret=secret)
    assert nobody.asks("auth/login", username="bob", password=bob["password"])["code"] == 402
    wrong = f"{(int(code) + 1) % 1_000_000:06}"
    assert nobody.asks("auth/login", username="bob", password=bob["password"], otp_code=wrong)["code"] == 402
    person = nobody.signed_in("bob", bob["password"], code)
    key = json.loads(json.loads((EVENTS / "auth/sshkey_add.json").read_text())["body"])["key"]
    for title in ("one", "two", "three"):
        person.gets("auth/sshkey_add", title=title, key=key)
    first, second, _ = (row["id"] for row in person.gets("auth/sshkey_list")["content"])
    person.gets("auth/sshkey_delete", f"id={first}")
    admin.gets("users/sshkey_delete", f"id={second}")
    person.gets("auth/me_update", username="bobby", password="another password", sso_id="")
    admin.gets("users/update", **(bob | {"id": number, "username": "robert"}))
    admin.gets("users/delete", f"id={number}")


def configuration(admin: Person) -> None:
    """Rules and storages that move, a storage that fails, one whose driver changes its own options."""
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
    kept = json.loads(admin.gets("storages/get", f"id={number}")["addition"])
    assert kept["url_structure"] == "new:"
    admin.gets("storages/delete", f"id={number}")


def files(admin: Person) -> None:
    """The mount under the functions' own role: folders as a whole, the largest body, links that are followed."""
    largest = bytes(LARGEST_CLOUD_ANSWER)
    for path, content in (("a.txt", b"a"), ("sub/b.txt", b"b"), ("largest", largest)):
        assert admin.puts(f"/files/album/{path}", content) == 200
    admin.gets("files/rename", path="/files/album", name="pictures")
    admin.gets("files/mkdir", path="/files/copies")
    admin.gets("files/copy", src_dir="/files/pictures", dst_dir="/files/copies", names=["sub"])
    assert admin.asks("files/get", path="/files/pictures/none")["code"] == 500
    assert httpx.get(admin.gets("files/link", path="/files/copies/sub/b.txt")["url"]).content == b"b"
    sign = admin.gets("files/get", path="/files/pictures/a.txt")["sign"]
    found = admin.downloads("/files/pictures/a.txt", sign)
    assert found["statusCode"] == 302
    assert httpx.get(found["headers"]["location"]).content == b"a"
    admin.gets("files/remove", dir="/files", names=["pictures", "copies"])
    assert admin.downloads("/files/pictures/a.txt", sign)["statusCode"] == 404
    listed = admin.gets("files/list", path="/files", refresh=True)["content"] or []
    assert not {entry["name"] for entry in listed} & {"album", "pictures", "copies"}


class Outside:
    """A bucket of somebody else's, which the functions reach with keys of its own and need no rights for."""

    def __init__(self, admin: Person) -> None:
        self.store = admin.cloud.client("s3")
        self.name = f"outside-{uuid4().hex}"
        self.store.create_bucket(Bucket=self.name)
        addition = servers.s3_options(admin.cloud.aws[1], self.name)
        admin.gets("storages/create", mount_path="/outside", driver="S3", addition=json.dumps(addition))

    def __setitem__(self, key: str, content: bytes) -> None:
        self.store.put_object(Bucket=self.name, Key=key, Body=content)


LARGE = bytes(carry.WHOLE + 1)  # goes in parts


def tasks(admin: Person, outside: Outside) -> None:
    """Work in the background that succeeds: from elsewhere, to elsewhere, within the provider, from staging."""
    cloud = admin.cloud
    for path, content in (("a.txt", b"a"), ("sub/large", LARGE), ("sub/deep/b.txt", b"b")):
        outside[f"tree/{path}"] = content
    addition = json.dumps({"bucket": cloud.places["Files"], "region": "us-east-1", "root_folder_path": "/other root"})
    admin.gets("storages/create", mount_path="/within", driver="S3", addition=addition)
    wrong = admin.sends("/files/wrong.txt", b"staged", as_task="true", x_file_md5="0" * 32)
    assert wrong["code"] == 400
    done = [("upload", admin.sends("/files/staged.txt", b"staged", as_task="true")["data"]["task"]["id"])]
    cloud.drive()
    ways = (("copy", "/outside", "/files"), ("copy", "/files", "/within"), ("move", "/within", "/outside/back"))
    admin.gets("files/mkdir", path="/outside/back")
    for verb, source, target in ways:
        done += [(verb, id) for id in admin.carries(verb, source, target, "tree")]
        cloud.drive()
    done += [("copy", id) for id in admin.carries("copy", "/outside", "/files", "tree", merge=True)]
    structure = {"url_structure": "f:https://example.com/f", "writable": True}
    admin.gets("storages/create", mount_path="/texts", driver="UrlTree", addition=json.dumps(structure))
    outside["folders/empty/.mangrove"] = b""
    done += [("copy", id) for id in admin.carries("copy", "/outside", "/texts", "folders")]
    cloud.drive()
    assert len(done) == 6
    assert [admin.told(kind, id) for kind, id in done] == [("succeeded", "")] * len(done)
    assert names(admin, "/outside/back/tree/sub") == ["deep", "large"]
    assert (names(admin, "/within"), names(admin, "/texts/folders")) == ([], ["empty"])


def broken_tasks(admin: Person, outside: Outside) -> None:
    """Work that is cancelled, fails, is cut off, retried or deleted."""
    cloud = admin.cloud
    move = cloud.named("TransferMove")
    outside["whole"] = LARGE
    files = cloud.places["Files"]

    def once(happens: Callable[[], object]) -> None:
        """Let it happen when the worker has begun to store a file in parts."""

        def heed(needs: set[Right]) -> None:
            if ("s3:PutObject", f"{files}/whole") in needs:
                move.heed = None
                happens()

        move.heed = heed

    def cancel() -> None:
        admin.tasks("copy", "cancel", tid=id)

    def cut() -> None:
        """The worker ends before it knows the name of what it began; its lease ends with it."""
        move.kill()
        cloud.client("dynamodb").update_item(
            TableName=f"{lambdas.STACK}-tasks", Key={"id": {"S": id}},
            UpdateExpression="SET #until = :now", ExpressionAttributeNames={"#until": "until"},
            ExpressionAttributeValues={":now": {"N": "0"}},
        )  # fmt: skip

    def change() -> None:
        outside["whole"] = LARGE + b"changed"

    for happens, told in (
        (cancel, ("canceled", "context canceled")),
        (change, ("failed", "1 of 1 items failed: whole: the source changed while it was copied")),
        (cut, ("succeeded", "")),
        (lambda: (cut(), cancel()), ("canceled", "context canceled")),
    ):
        outside["whole"] = LARGE
        (id,) = admin.carries("copy", "/outside", "/files", "whole", overwrite=True)
        once(happens)
        cloud.drive()
        assert admin.told("copy", id) == told
        assert "Uploads" not in cloud.client("s3").list_multipart_uploads(Bucket=files)
    admin.tasks("copy", "clear_succeeded")
    admin.tasks("copy", "retry_failed")
    (id,) = admin.carries("move", "/outside", "/files", "back")
    admin.tasks("move", "delete", tid=id)
    cloud.drive()
    assert [row["state"] for row in admin.tasks("copy", "done")] == ["canceled", "succeeded", "canceled"]
    assert id not in str([admin.tasks("move", shelf) for shelf in ("undone", "done")])


def gone_tasks(admin: Person) -> None:
    """A worker that is called for a task that is not there any more."""
    for name in FUNCTIONS:
        properties = FUNCTIONS[name]["Properties"]
        if "Handler" in properties:
            worker = admin.cloud.named(name)
            if name.endswith("Settle"):
                assert worker({"tid": "x" * 21})["more"] is False
                continue
            with pytest.raises(lambdas.Ended) as caught:
                worker({"tid": "x" * 21})
            assert caught.value.kind == "Superseded"


def swept(admin: Person) -> None:
    """What is old goes, what is young stays."""
    cloud = admin.cloud
    store, records, staging = cloud.client("s3"), cloud.client("dynamodb"), cloud.places["Staging"]
    store.put_object(Bucket=staging, Key="young/body", Body=b"x")
    store.put_object(Bucket=staging, Key="old/body", Body=b"x")
    s3_backends["123456789012"]["aws"].buckets[staging].keys["old/body"].last_modified -= timedelta(days=2)
    for table, key in (("sessions", "jti"), ("counters", "key")):
        records.put_item(TableName=f"{lambdas.STACK}-{table}", Item={key: {"S": "old"}, "expires": {"N": "1"}})
    admin.raw("settings/save", {"body": json.dumps([{"key": "task_retention_days", "value": "0"}])})
    cloud.named("SweepFunction")({})
    kept = {one["Key"].partition("/")[0] for one in store.list_objects_v2(Bucket=staging)["Contents"]}
    assert "young" in kept
    assert not {"old"} & kept
    for table, key in (("sessions", "jti"), ("counters", "key")):
        assert "Item" not in records.get_item(TableName=f"{lambdas.STACK}-{table}", Key={key: {"S": "old"}})
    assert [admin.tasks(kind, "done") for kind in ("upload", "copy", "move")] == [[], [], []]


def names(admin: Person, path: str) -> list[str]:
    return sorted(entry["name"] for entry in admin.gets("files/list", path=path, refresh=True)["content"] or [])


@pytest.fixture(scope="module")
def cloud() -> Iterator[lambdas.Cloud]:
    """A deployment in which every function has done all it does."""
    with lambdas.deployed() as cloud:
        cloud.start()
        for _ in range(2):
            assert cloud.setup()["Status"] == "SUCCESS"
        samples(cloud)
        admin = Person(cloud).signed_in("admin", lambdas.ADMIN_PASSWORD)
        accounts(admin)
        configuration(admin)
        files(admin)
        outside = Outside(admin)
        tasks(admin, outside)
        broken_tasks(admin, outside)
        gone_tasks(admin)
        swept(admin)
        yield cloud


def resource(shown: dict[str, str], cloud: lambdas.Cloud) -> str:
    """A resource of a policy in the recorder's words."""
    resources = template.document()["Resources"]
    ((kind, text),) = shown.items()
    if kind == "Ref":
        return cloud.places[text]
    name, _, rest = text.removeprefix("${").replace("Arn}", "Arn").partition(".Arn")
    assert kind in ("Fn::GetAtt", "Fn::Sub"), shown
    if resources[name]["Type"] == "AWS::DynamoDB::Table":
        assert rest in ("", *(f"/index/{index['IndexName']}" for index in indexes(resources[name]))), shown
        table: str = resources[name]["Properties"]["TableName"]["Fn::Sub"]
        return table.replace("${AWS::StackName}", lambdas.STACK) + rest
    assert resources[name]["Type"] == "AWS::S3::Bucket" and rest in ("", "/*"), shown
    return cloud.places[name] + rest


def indexes(table: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table["Properties"].get("GlobalSecondaryIndexes", [])
    return found


def granted(statements: list[dict[str, Any]], cloud: lambdas.Cloud) -> set[Right]:
    found: set[Right] = set()
    for statement in statements:
        assert statement["Effect"] == "Allow" and set(statement) == {"Effect", "Action", "Resource"}
        actions, resources = (
            value if isinstance(value, list) else [value] for value in (statement["Action"], statement["Resource"])
        )
        found |= {(action, resource(one, cloud)) for action in actions for one in resources}
    return found


def inline(name: str, cloud: lambdas.Cloud) -> set[Right]:
    policies = FUNCTIONS[name]["Properties"]["Policies"]
    return {right for one in policies if "Statement" in one for right in granted(one["Statement"], cloud)}


def managed(name: str, cloud: lambdas.Cloud) -> set[Right]:
    resources = template.document()["Resources"]
    policies = [
        resources[one["Ref"]]["Properties"] for one in FUNCTIONS[name]["Properties"]["Policies"] if "Ref" in one
    ]
    return {right for one in policies for right in granted(one["PolicyDocument"]["Statement"], cloud)}


def covers(right: Right, need: Right) -> bool:
    return right[0] == need[0] and fnmatchcase(need[1], right[1])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_may_do_all_it_does(cloud: lambdas.Cloud, name: str) -> None:
    rights = inline(name, cloud) | managed(name, cloud)
    assert cloud.named(name).used
    assert not {need for need in cloud.named(name).used if not any(covers(right, need) for right in rights)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_uses_every_right_that_is_its_own(cloud: lambdas.Cloud, name: str) -> None:
    idle = {right for right in inline(name, cloud) if not any(covers(right, need) for need in cloud.named(name).used)}
    excused = {(action, place.format(**cloud.places)) for function, action, place in UNUSED if function == name}
    assert idle == excused


def test_every_right_that_all_functions_have_is_used_by_several(cloud: lambdas.Cloud) -> None:
    for right in {right for name in FUNCTIONS for right in managed(name, cloud)}:
        assert sum(any(covers(right, need) for need in cloud.named(name).used) for name in FUNCTIONS) > 1, right


def test_no_upload_through_a_function_is_long_enough_for_parts_that_it_would_have_to_abort() -> None:
    assert s3upload.PART > LARGEST_EVENT


TABLES = {"TransactItems": [
    {"Put": {"TableName": "a"}}, {"Delete": {"TableName": "b"}}, {"Update": {"TableName": "c"}},
    {"ConditionCheck": {"TableName": "d"}},
]}  # fmt: skip
DELETE = b'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Object><Key>d/a&amp;b</Key></Object></Delete>'


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "needs"),
    [
        ("POST", "/", {"x-amz-target": "DynamoDB_20120810.Scan"}, b'{"TableName": "a"}', {("dynamodb:Scan", "a")}),
        (
            "POST", "/", {"x-amz-target": "DynamoDB_20120810.TransactWriteItems"}, json.dumps(TABLES).encode(),
            {
                ("dynamodb:PutItem", "a"), ("dynamodb:DeleteItem", "b"), ("dynamodb:UpdateItem", "c"),
                ("dynamodb:ConditionCheckItem", "d"),
            },
        ),
        (
            "POST", "/", {"x-amz-target": "secretsmanager.GetSecretValue"}, b'{"SecretId": "arn"}',
            {("secretsmanager:GetSecretValue", "arn")},
        ),
        ("GET", "/b?prefix=d%2F&delimiter=%2F&X-Amz-Date=1", {}, b"", {("s3:ListBucket", "b")}),
        ("HEAD", "/b/a%20b", {}, b"", {("s3:GetObject", "b/a b")}),
        ("PUT", "/b/a", {}, b"", {("s3:PutObject", "b/a")}),
        ("PUT", "/b/a", {"x-amz-copy-source": "c/d%20e"}, b"", {("s3:PutObject", "b/a"), ("s3:GetObject", "c/d e")}),
        ("PUT", "/b/a?partNumber=1&uploadId=u", {}, b"", {("s3:PutObject", "b/a")}),
        ("DELETE", "/b/a?uploadId=u", {}, b"", {("s3:AbortMultipartUpload", "b/a")}),
        ("DELETE", "/b/a", {}, b"", {("s3:DeleteObject", "b/a")}),
        ("POST", "/b?delete", {}, DELETE, {("s3:DeleteObject", "b/d/a&b")}),
        ("GET", "/b/a?acl", {}, b"", {("s3:unknown ('GET', 'acl')", "b/a")}),
    ],
)  # fmt: skip
def test_a_call_is_noted_as_the_rights_that_iam_asks_for(
    method: str, path: str, headers: dict[str, str], body: bytes, needs: set[Right]
) -> None:
    assert recorder.needed(method, path, headers, body) == needs

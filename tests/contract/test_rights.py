"""The rights that the template gives to each function are enough for what it does, and no more than it ever uses."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote

import httpx
import pyotp
import pytest

from mangrove.drivers import s3upload
from mangrove.local import template
from mangrove.web.serving import LARGEST_CLOUD_ANSWER
from tests import lambdas, recorder
from tests.contract.test_events import EVENTS, ORDER, Facts, run
from tests.recorder import Right

FUNCTIONS = dict(template.resources("AWS::Serverless::Function"))
LARGEST_EVENT = 6 << 20  # bytes that Lambda hands to a function
UNUSED = {  # rights for what is too dear for a test
    ("FilesFunction", "s3:AbortMultipartUpload", "FILES/*"): "a copy above 5 GiB goes in parts and may fail",
}


class Person:
    """Somebody who sends events to the functions."""

    def __init__(self, cloud: lambdas.Cloud, token: str = "") -> None:
        self.cloud = cloud
        self.token = token

    def raw(self, sample: str, event: dict[str, Any]) -> dict[str, Any]:
        whole: dict[str, Any] = json.loads((EVENTS / f"{sample}.json").read_text())
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
        headers = {"file-path": quote(path), "content-length": str(len(content))}
        body = base64.b64encode(content).decode()
        answer = self.raw("uploads/put", {"headers": headers, "body": body, "isBase64Encoded": True})
        code: int = json.loads(answer["body"])["code"]
        return code

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
        yield cloud


def used(cloud: lambdas.Cloud, name: str) -> set[Right]:
    return cloud.function(FUNCTIONS[name]["Properties"]["CodeUri"].rstrip("/")).used


def resource(shown: dict[str, str], cloud: lambdas.Cloud) -> str:
    """A resource of a policy in the recorder's words."""
    resources = template.document()["Resources"]
    ((kind, text),) = shown.items()
    if kind == "Ref":
        return cloud.environment[{"MasterKey": "MANGROVE_KEY_SECRET", "AdminSecret": "MANGROVE_ADMIN_SECRET"}[text]]
    name, _, rest = text.removeprefix("${").replace("Arn}", "Arn").partition(".Arn")
    assert kind in ("Fn::GetAtt", "Fn::Sub") and rest in ("", "/*"), shown
    if resources[name]["Type"] == "AWS::DynamoDB::Table":
        table: str = resources[name]["Properties"]["TableName"]["Fn::Sub"]
        return table.replace("${AWS::StackName}", "stack")
    assert name == "Files"
    return cloud.environment["MANGROVE_FILES_BUCKET"] + rest


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
    assert used(cloud, name)
    assert not {need for need in used(cloud, name) if not any(covers(right, need) for right in rights)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_uses_every_right_that_is_its_own(cloud: lambdas.Cloud, name: str) -> None:
    idle = {right for right in inline(name, cloud) if not any(covers(right, need) for need in used(cloud, name))}
    bucket = cloud.environment["MANGROVE_FILES_BUCKET"]
    excused = {(action, place.replace("FILES", bucket)) for function, action, place in UNUSED if function == name}
    assert idle == excused


def test_every_right_that_all_functions_have_is_used_by_several(cloud: lambdas.Cloud) -> None:
    for right in {right for name in FUNCTIONS for right in managed(name, cloud)}:
        assert sum(any(covers(right, need) for need in used(cloud, name)) for name in FUNCTIONS) > 1, right


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

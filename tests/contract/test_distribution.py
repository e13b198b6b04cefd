"""Downloads through CloudFront: the functions under Lambda's runtime client, in a stack with `Distribution=on`."""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from mangrove.standalone import template
from tests.contract.scenarios import Person
from tests.support import lambdas
from tests.support.edge import Edge
from tests.support.policies import FUNCTIONS

DOMAIN, STAGED_DOMAIN, KEY_ID = "d111111abcdef8.cloudfront.net", "d222222abcdef8.cloudfront.net", "K2JCJMDEHXQW5F"
SIGNING = ("FilesFunction", "DownloadsFunction", "DavFunction")
HOUR = 3600


class Stack:
    """A deployment with a distribution."""

    def __init__(self, cloud: lambdas.Cloud) -> None:
        self.cloud = cloud
        self.store = cloud.client("s3")
        self.secret = cloud.client("secretsmanager").create_secret(Name="download-key")["ARN"]
        self._set("SetupFunction", MANGROVE_DOWNLOAD_KEY_SECRET=self.secret)
        answer = cloud.run_setup()
        assert answer["Status"] == "SUCCESS", answer
        self.public_key: str = answer["Data"]["DownloadPublicKey"]
        for name in SIGNING:
            self._set(
                name, MANGROVE_DOWNLOAD_DOMAIN=DOMAIN, MANGROVE_DOWNLOAD_KEY_ID=KEY_ID,
                MANGROVE_DOWNLOAD_KEY_SECRET=self.secret, MANGROVE_STAGED_DOMAIN=STAGED_DOMAIN,
            )  # fmt: skip
        self.edge = Edge(DOMAIN, KEY_ID, self.public_key, self.store, cloud.refs["Files"])
        self.staged_edge = Edge(STAGED_DOMAIN, KEY_ID, self.public_key, self.store, cloud.refs["Staging"])
        self.admin = Person(cloud).sign_in("admin", lambdas.ADMIN_PASSWORD)

    def _set(self, name: str, **variables: str) -> None:
        function = self.cloud.get_function(name)
        function.environment = {**function.environment, **variables}

    def put(self, key: str, body: bytes) -> None:
        """Store an object as another program does."""
        self.store.put_object(Bucket=self.cloud.refs["Files"], Key=key, Body=body, ContentType="application/x-test")

    def redirect(self, path: str, route: str = "d", **query: str) -> str:
        """Return the address that a download is redirected to."""
        sign = self.admin.gets("files/get", path=path)["sign"]
        text = "&".join(f"{name}={value}" for name, value in ({"sign": sign} | query).items())
        event = {"http": {"path": f"/{route}{path}"}, "rawQueryString": text, "headers": {"range": ""}}
        answer = self.admin.raw(f"downloads/{route}_get", event)
        assert answer["statusCode"] == 302, answer
        return str(answer["headers"]["location"])

    def redirect_by_webdav(self, name: str) -> str:
        """Return the address that a WebDAV client is redirected to."""
        (storage,) = self.admin.gets("storages/list")["content"]
        self.admin.gets("storages/update", **storage | {"webdav_policy": "302_redirect"})
        basic = base64.b64encode(f"admin:{lambdas.ADMIN_PASSWORD}".encode()).decode()
        event = {"http": {"path": f"/dav/files/{name}"}, "headers": {"authorization": f"Basic {basic}"}}
        answer = self.admin.raw("dav/entry", event)
        assert answer["statusCode"] == 302, answer
        return str(answer["headers"]["location"])


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with lambdas.deploy() as cloud:
        yield Stack(cloud)


def test_downloads_lead_to_the_edge(stack: Stack) -> None:
    path, body = "/files/a b+é%20?.bin", bytes(range(256))
    stack.put(path.removeprefix("/files/"), body)
    raw_url = stack.admin.gets("files/get", path=path)["raw_url"]
    link = stack.admin.gets("files/link", path=path)["url"]
    for url in (raw_url, link):
        content, headers = stack.edge.fetch(url)
        assert (content, headers) == (body, {"content-disposition": "attachment", "content-type": "application/x-test"})
        assert 4 * HOUR - 60 < stack.edge.verify(url) <= 4 * HOUR
        assert stack.edge.fetch(url, "bytes=10-19")[0] == body[10:20]
    stack.put("plain.bin", body)
    assert stack.edge.fetch(stack.redirect("/files/plain.bin"))[0] == body


def test_replaced_file_has_another_place_in_the_cache(stack: Stack) -> None:
    stack.put("replaced.bin", b"old")
    old = stack.redirect("/files/replaced.bin")
    assert stack.edge.fetch(old)[0] == b"old"
    stack.put("replaced.bin", b"new")
    assert stack.edge.fetch(stack.redirect("/files/replaced.bin"))[0] == b"new"
    assert stack.edge.fetch(old)[0] == b"old", "from the cache"


def test_version_of_a_file_is_read_at_the_edge(stack: Stack) -> None:
    bucket = stack.cloud.refs["Files"]
    stack.store.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    stack.put("kept.bin", b"first")
    (version,) = stack.store.list_object_versions(Bucket=bucket, Prefix="kept.bin")["Versions"]
    stack.put("kept.bin", b"second")
    url = stack.redirect("/files/kept.bin", version=version["VersionId"])
    assert f"versionId={version['VersionId']}" in url
    assert stack.edge.fetch(url)[0] == b"first"
    assert stack.edge.fetch(stack.redirect("/files/kept.bin"))[0] == b"second"


def test_webdav_redirects_to_the_edge(stack: Stack) -> None:
    stack.put("dav.bin", b"dav")
    assert stack.edge.fetch(stack.redirect_by_webdav("dav.bin"))[0] == b"dav"


def test_staged_file_leads_to_the_edge_of_its_bucket(stack: Stack) -> None:
    body = b"x" * 5_000_000
    stack.put("large.txt", body)
    assert stack.staged_edge.fetch(stack.redirect("/files/large.txt", "p"))[0] == body


def test_zip_file_of_a_task_leads_to_the_edge(stack: Stack) -> None:
    names = ["zipped/a.txt", "zipped/b.bin"]
    for name in names:
        stack.put(name, name.encode() * 400_000)
    link = stack.admin.gets("files/zip", dir="/files", names=["zipped"])
    assert link["task"], "it is too large for an answer"
    stack.cloud.run_executions()
    parts = urlsplit(link["url"])
    event = {"http": {"path": parts.path}, "rawQueryString": parts.query, "headers": {"range": ""}}
    answer = stack.admin.raw("downloads/zip_get", event)
    assert answer["statusCode"] == 302, answer
    content, _ = stack.staged_edge.fetch(answer["headers"]["location"])
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        assert {name: packed.read(name) for name in names} == {name: name.encode() * 400_000 for name in names}


def list_conditional(name: str) -> list[dict[str, Any]]:
    """Return the statements that a function has with a distribution alone."""
    policies = [policy["Fn::If"] for policy in FUNCTIONS[name]["Policies"] if "Fn::If" in policy]
    assert all(without == {"Ref": "AWS::NoValue"} for _, _, without in policies)
    return [
        statement
        for condition, policy, _ in policies
        if condition == "HasDistribution"
        for statement in policy["Statement"]
    ]


def test_only_functions_that_sign_read_the_key(stack: Stack) -> None:
    stack.put("used.bin", b"x")
    stack.redirect("/files/used.bin")
    stack.redirect_by_webdav("used.bin")
    granted = {
        (name, action)
        for name in FUNCTIONS
        for statement in list_conditional(name)
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
        if statement["Resource"] == {"Ref": "DownloadKey"}
    }
    used = {
        (name, action)
        for name in FUNCTIONS
        for action, place in stack.cloud.get_function(name).used
        if place == stack.secret
    }
    assert granted == used
    assert {name for name, _ in used} == {*SIGNING, "SetupFunction"}
    for name, function in FUNCTIONS.items():
        variables = function.get("Environment", {}).get("Variables", {})
        assert ("MANGROVE_DOWNLOAD_DOMAIN" in variables) is (name in SIGNING)
        assert ("MANGROVE_STAGED_DOMAIN" in variables) is (name in SIGNING)
        assert ("MANGROVE_DOWNLOAD_KEY_SECRET" in variables) is (name in {*SIGNING, "SetupFunction"})


def test_set_up_keeps_the_key(stack: Stack) -> None:
    assert stack.cloud.run_setup()["Data"] == {"DownloadPublicKey": stack.public_key}


def test_secret_without_a_key_is_named(stack: Stack) -> None:
    client = stack.cloud.client("secretsmanager")
    stack.put("named.bin", b"x")
    sign = stack.admin.gets("files/get", path="/files/named.bin")["sign"]
    value = client.get_secret_value(SecretId=stack.secret)["SecretString"]
    client.put_secret_value(SecretId=stack.secret, SecretString="something else")
    try:
        answer = stack.cloud.run_setup()
        assert answer["Status"] == "FAILED"
        assert "the secret of MANGROVE_DOWNLOAD_KEY_SECRET has no private key in PEM" in answer["Reason"]
        downloads = stack.cloud.get_function("DownloadsFunction")
        downloads.close()  # another process reads the secret again
        event = {"http": {"path": "/d/files/named.bin"}, "rawQueryString": f"sign={sign}", "headers": {"range": ""}}
        refused = stack.admin.raw("downloads/d_get", event)
        assert refused["statusCode"] == 500
        assert "the secret of MANGROVE_DOWNLOAD_KEY_SECRET has no RSA key" in refused["body"]
    finally:
        client.put_secret_value(SecretId=stack.secret, SecretString=value)


@pytest.mark.parametrize(
    ("bucket", "distribution", "actions"),
    [("Files", "Downloads", ["s3:GetObject", "s3:GetObjectVersion"]), ("Staging", "StagedDownloads", "s3:GetObject")],
)
def test_bucket_is_read_by_its_distribution_alone(bucket: str, distribution: str, actions: Any) -> None:
    resources = template.load_template()["Resources"]
    _, choice = resources[f"{bucket}Policy"]["Properties"]["PolicyDocument"]["Statement"]
    condition, statement, without = choice["Fn::If"]
    assert (condition, without) == ("HasDistribution", {"Ref": "AWS::NoValue"})
    arn = f"arn:${{AWS::Partition}}:cloudfront::${{AWS::AccountId}}:distribution/${{{distribution}}}"
    assert statement == {
        "Effect": "Allow", "Principal": {"Service": "cloudfront.amazonaws.com"},
        "Action": actions, "Resource": {"Fn::Sub": f"${{{bucket}.Arn}}/*"},
        "Condition": {"StringEquals": {"aws:SourceArn": {"Fn::Sub": arn}}},
    }  # fmt: skip
    (origin,) = resources[distribution]["Properties"]["DistributionConfig"]["Origins"]
    assert origin["DomainName"] == {"Fn::GetAtt": f"{bucket}.RegionalDomainName"}
    settings = resources["DownloadAccess"]["Properties"]["OriginAccessControlConfig"]
    assert (settings["SigningBehavior"], settings["OriginAccessControlOriginType"]) == ("always", "s3")


def test_distribution_is_optional_and_takes_signed_links_alone() -> None:
    loaded = template.load_template()
    assert loaded["Parameters"]["Distribution"]["Default"] == "off"
    own = {name: body for name, body in loaded["Resources"].items() if body["Type"].startswith("AWS::CloudFront::")}
    assert {body["Condition"] for body in [*own.values(), loaded["Resources"]["DownloadKey"]]} == {"HasDistribution"}
    for name in ("Downloads", "StagedDownloads"):
        behavior = own[name]["Properties"]["DistributionConfig"]["DefaultCacheBehavior"]
        assert behavior["TrustedKeyGroups"] == [{"Ref": "DownloadKeyGroup"}]
    assert own["DownloadKeyGroup"]["Properties"]["KeyGroupConfig"]["Items"] == [{"Ref": "DownloadPublicKey"}]
    key = own["DownloadPublicKey"]["Properties"]["PublicKeyConfig"]["EncodedKey"]
    assert key == {"Fn::GetAtt": "Setup.DownloadPublicKey"}
    assert loaded["Resources"]["Setup"]["Properties"]["Distribution"] == {"Ref": "Distribution"}
    for body in own.values():
        (settings,) = body["Properties"].values()
        name = settings.get("Name") or settings["Comment"]
        assert "${AWS::StackName}" in name["Fn::Sub"] and "${AWS::Region}" in name["Fn::Sub"]

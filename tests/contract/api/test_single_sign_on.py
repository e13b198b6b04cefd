"""Single sign-on over HTTP, against a real provider: `oidc-provider-mock` on loopback, on Authlib and Flask."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import People
from tests.support.service import Client, HttpClient, Service

SECRET = "not a secret of anybody"


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    import oidc_provider_mock  # has Flask, and every worker imports this module

    with oidc_provider_mock.run_server_in_thread(require_nonce=True) as server:
        yield f"http://localhost:{server.server_port}"


@pytest.fixture
def enabled(admin: Client, issuer: str) -> Iterator[str]:
    values = {
        "sso_login_enabled": "true", "sso_login_platform": "OIDC", "sso_client_id": "mangrove",
        "sso_client_secret": SECRET, "sso_endpoint_name": issuer, "sso_auto_register": "true",
        "sso_oidc_username_key": "email", "sso_default_permission": "8",
    }  # fmt: skip
    with fixtures.settings(admin, **values):
        yield issuer


class Browser:
    """A browser with its cookies, in which a person signs in at the provider."""

    def __init__(self, service: Service) -> None:
        self.site = f"http://localhost:{urlsplit(service.address).port}"
        self.http = HttpClient(timeout=60)

    def begin(self, method: str = "sso_get_token", prefix: str = "") -> str:
        answer = self.http.get(f"{self.site}{prefix}/api/auth/sso", params={"method": method})
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]

    def consent(self, url: str, subject: str) -> str:
        """Return the address to which the provider sends the browser."""
        answer = self.http.post(url, data={"sub": subject})
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]

    def come_back(self, url: str) -> httpx.Response:
        return self.http.get(url)

    def sign_in(self, subject: str, method: str = "sso_get_token", prefix: str = "") -> httpx.Response:
        return self.come_back(self.consent(self.begin(method, prefix), subject))


def read_answer(page: httpx.Response) -> dict[str, str]:
    assert page.headers["content-type"].startswith("text/html"), page.text
    match = re.search(r'data-answer="([^"]*)"', page.text)
    assert match is not None, page.text
    answer: dict[str, str] = json.loads(html.unescape(match[1]))
    return answer


def read_refusal(answer: httpx.Response) -> tuple[int, str]:
    envelope: dict[str, Any] = answer.json()
    return envelope["code"], envelope["message"]


@pytest.fixture
def browser(service: Service) -> Browser:
    return Browser(service)


@pytest.mark.usefixtures("enabled")
@pytest.mark.parametrize("prefix", ["", "/openlist"])
def test_first_sign_in_registers_and_signs_in(
    service: Service, admin: Client, browser: Browser, enabled: str, prefix: str
) -> None:
    subject = f"ann{len(prefix)}@example.org"
    token = read_answer(browser.sign_in(subject, prefix=prefix))["token"]
    me = Client(service.address, token).get("/api/me")["data"]
    assert (me["username"], me["permission"], me["sso_id"]) == (subject, 8, f"{enabled}#{subject}")
    again = Client(service.address, read_answer(browser.sign_in(subject))["token"]).get("/api/me")["data"]
    assert again["id"] == me["id"]
    admin.ok("/api/admin/user/update", **me | {"disabled": True})
    assert read_refusal(browser.sign_in(subject))[0] == 401
    admin.ok("/api/admin/user/delete", params={"id": me["id"]})


def read_role(service: Service, browser: Browser, subject: str) -> tuple[int, int]:
    """Sign in; return the role, and the code of a request that only administrators may make."""
    client = Client(service.address, read_answer(browser.sign_in(subject))["token"])
    return client.get("/api/me")["data"]["role"], client.get("/api/admin/user/list")["code"]


def test_claim_makes_administrators_of_several_accounts(
    service: Service, admin: Client, browser: Browser, enabled: str
) -> None:
    subjects = [f"{name}@example.org" for name in ("root1", "root2")]
    claim = {"sso_admin_claim": "roles", "sso_admin_value": "root"}
    for subject in subjects:
        httpx.put(
            f"{enabled}/users/{subject}", json={"roles": ["other", "root"], "email": subject}, timeout=60
        ).raise_for_status()
        assert read_role(service, browser, subject) == (0, 403), "off by default"
    with fixtures.settings(admin, **claim):
        assert [read_role(service, browser, subject) for subject in subjects] == [(2, 200)] * 2
        client = Client(service.address, read_answer(browser.sign_in(subjects[0]))["token"])
        rows = client.get("/api/admin/user/list")["data"]["content"]
        own = next(row for row in rows if row["username"] == subjects[0])
        assert own["role"] == 0 and [row["username"] for row in rows if row["role"] == 2] == ["admin"]
        httpx.put(f"{enabled}/users/{subjects[1]}", json={"email": subjects[1]}, timeout=60).raise_for_status()
        assert read_role(service, browser, subjects[1]) == (0, 403), "the claim is lost"
        assert client.get("/api/admin/user/list")["code"] == 200
    assert client.get("/api/admin/user/list")["code"] == 403, "the setting is off again"
    with fixtures.settings(admin, **claim):
        assert client.get("/api/me")["data"]["role"] == 2
        admin.ok("/api/admin/user/update", **own | {"disabled": True})
        assert client.get("/api/admin/user/list")["code"] == 401
        admin.ok("/api/admin/user/delete", params={"id": own["id"]})


@pytest.mark.usefixtures("enabled")
def test_page_posts_to_our_origin_and_runs_its_own_script_only(browser: Browser) -> None:
    url = browser.begin()
    page = browser.come_back(browser.consent(url, "bob@example.org"))
    script = page.text.partition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'") and f"script-src 'sha256-{digest}'" in policy
    assert "postMessage(answer, location.origin)" in script and "'*'" not in script
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "no-referrer"
    cookie = next(iter(browser.http.cookies.jar))
    assert cookie.has_nonstandard_attr("HttpOnly") and cookie.get_nonstandard_attr("SameSite") == "lax"
    assert SECRET not in url and read_answer(page)["token"] not in str(page.url)


@pytest.mark.usefixtures("enabled")
def test_identity_is_linked_by_a_signed_in_user(service: Service, accounts: People, browser: Browser) -> None:
    person = accounts.new()
    proof = read_answer(browser.sign_in("carol@example.org", "get_sso_id"))["sso_id"]
    person.client.ok("/api/me/update", username=person.name, sso_id=proof)
    assert person.client.get("/api/me")["data"]["sso_id"].endswith("#carol@example.org")
    assert person.client.post("/api/me/update", username=person.name, sso_id=proof)["code"] == 400
    token = read_answer(browser.sign_in("carol@example.org"))["token"]
    assert Client(service.address, token).get("/api/me")["data"]["username"] == person.name


@pytest.mark.usefixtures("enabled")
def test_answer_that_is_replayed_or_stolen_is_refused(service: Service, browser: Browser) -> None:
    url = browser.consent(browser.begin(), "dave@example.org")
    assert read_refusal(Browser(service).come_back(url)) == (400, "incorrect or expired state parameter")
    assert read_refusal(browser.come_back(url)) == (400, "incorrect or expired state parameter")  # it was used
    url = browser.consent(browser.begin(), "dave@example.org")
    assert read_answer(browser.come_back(url))["token"]
    assert read_refusal(browser.come_back(url))[0] == 400
    code = parse_qs(urlsplit(url).query)["code"][0]
    state = parse_qs(urlsplit(browser.begin()).query)["state"][0]
    query = f"code={code}&state={state}"
    assert read_refusal(browser.come_back(f"{browser.site}/api/auth/sso_callback?{query}"))[0] == 401


@pytest.mark.usefixtures("enabled")
def test_compatibility_mode_opens_the_front_end(admin: Client, browser: Browser) -> None:
    with fixtures.settings(admin, sso_compatibility_mode="true"):
        url = browser.begin("sso_get_token")
        redirect = parse_qs(urlsplit(url).query)["redirect_uri"][0]
        assert redirect == f"{browser.site}/api/auth/sso_get_token"
        page = browser.come_back(browser.consent(url, "erin@example.org"))
        assert read_answer(page)["token"] and 'data-compatible="true"' in page.text


def test_single_sign_on_is_off_until_it_is_switched_on(admin: Client, browser: Browser, issuer: str) -> None:
    for path in ("sso", "sso_callback", "sso_get_token", "get_sso_id"):
        answer = browser.http.get(f"{browser.site}/api/auth/{path}", params={"method": "sso_get_token"})
        assert read_refusal(answer) == (403, "Single sign-on is not enabled")
    with fixtures.settings(admin, sso_login_enabled="true", sso_login_platform="OIDC", sso_endpoint_name=issuer):
        for method in ("", "x"):
            answer = browser.http.get(f"{browser.site}/api/auth/sso", params={"method": method})
            assert read_refusal(answer) == (400, "no method provided")


@pytest.mark.parametrize("platform", ["Casdoor", "Dingtalk"])
def test_platform_that_is_not_supported_is_refused_by_name(admin: Client, platform: str) -> None:
    rows = [{"key": "sso_login_platform", "value": platform}]
    answer = admin.envelope(admin.http.post("/api/admin/setting/save", json=rows))
    assert answer["code"] == 500 and platform in answer["message"]

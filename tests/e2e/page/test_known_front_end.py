"""The ways to sign in of the front end that existing installations use, served by `--page`.

It is not part of the repository: MANGROVE_KNOWN_FRONT_END names the folder `dist` of the npm package
`@openlist-frontend/openlist-frontend`. Without it the tests are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import oidc_provider_mock
import pytest

from tests.e2e.page.test_sign_in import PASSWORD, add_authenticator, save
from tests.support.service import Client, Service, run_service
from tests.support.slapd import BASE, MANAGER, MANAGER_PASSWORD, run_slapd
from tests.support.slapd import PASSWORD as DIRECTORY_PASSWORD

DIST = os.environ.get("MANGROVE_KNOWN_FRONT_END", "")
pytestmark = pytest.mark.skipif(not DIST, reason="MANGROVE_KNOWN_FRONT_END does not name the front end")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with run_service(tmp_path_factory.mktemp("front end") / "data", MANGROVE_PAGE=DIST) as service:
        yield service


@pytest.fixture
def front_end(browser: Any, service: Service) -> Iterator[Any]:
    """The front end in a wide window."""
    address = service.address.replace("127.0.0.1", "localhost")  # a relying party has a name
    context = browser.new_context(base_url=address, viewport={"width": 1280, "height": 800})
    context.set_default_timeout(20_000)
    yield context.new_page()
    context.close()


@pytest.fixture
def issuer(service: Service) -> Iterator[str]:
    with oidc_provider_mock.run_server_in_thread(require_nonce=True) as server:
        address = f"http://localhost:{server.server_port}"
        save(
            service, sso_login_enabled="true", sso_login_platform="OIDC", sso_client_id="mangrove",
            sso_client_secret="not a secret", sso_endpoint_name=address, sso_auto_register="true",
            sso_oidc_username_key="email", sso_default_permission="8",
        )  # fmt: skip
        yield address
        save(service, sso_login_enabled="false", sso_compatibility_mode="false")


def wait_for_user(page: Any, service: Service) -> str:
    """Wait until the page has left the sign-in; return the name of the user of its session."""
    page.wait_for_function("!location.pathname.includes('login') && localStorage.getItem('token')")
    page.locator(".obj-box").wait_for()
    token = page.evaluate("localStorage.getItem('token')")
    assert "token" not in urlsplit(page.url).query
    name: str = Client(service.address, token).get("/api/me")["data"]["username"]
    return name


def consent(page: Any, subject: str) -> None:
    """Sign in at the provider."""
    page.locator("input[name=sub]").fill(subject)
    page.locator("button[type=submit]").first.click()


def fill_names(page: Any, username: str, password: str) -> None:
    page.locator("input[name=username]").fill(username)
    page.locator("input[name=password]").fill(password)
    page.get_by_role("button", name="Login", exact=True).click()


def click_last_icon(page: Any) -> None:
    """Click the icon that the enabled way to sign in adds."""
    page.locator("input[name=username]").wait_for()
    page.locator("svg.hope-icon").last.click()


def test_icon_of_single_sign_on_opens_a_window_that_signs_in(front_end: Any, service: Service, issuer: str) -> None:
    front_end.goto("/@login")
    with front_end.expect_popup() as opened:
        click_last_icon(front_end)
    consent(opened.value, "ann@example.org")
    assert wait_for_user(front_end, service) == "ann@example.org"


def test_icon_of_single_sign_on_works_in_the_same_window(front_end: Any, service: Service, issuer: str) -> None:
    save(service, sso_compatibility_mode="true")
    front_end.goto("/@login")
    click_last_icon(front_end)
    consent(front_end, "ben@example.org")
    assert wait_for_user(front_end, service) == "ben@example.org"


@pytest.mark.parametrize("compatible", ["false", "true"], ids=["window", "same window"])
def test_profile_links_an_identity(front_end: Any, service: Service, issuer: str, compatible: str) -> None:
    name, subject = f"linked-{compatible}", f"{compatible}@example.org"
    service.client().ok("/api/admin/user/create", username=name, password=PASSWORD, base_path="/files", permission=8)
    front_end.goto("/@login")
    fill_names(front_end, name, PASSWORD)
    assert wait_for_user(front_end, service) == name
    save(service, sso_compatibility_mode=compatible)
    front_end.goto("/@manage")
    button = front_end.get_by_role("button", name="Connect to Single Sign-On Platform")
    with front_end.expect_response("**/openlist/api/me/update") as answered:
        if compatible == "true":
            button.click()
            consent(front_end, subject)
        else:
            with front_end.expect_popup() as opened:
                button.click()
            consent(opened.value, subject)
    assert answered.value.json()["code"] == 200
    front_end.get_by_role("button", name="Disconnect").wait_for()
    me = service.client(name, PASSWORD).get("/api/me")["data"]
    assert me["sso_id"] == f"{issuer}#{subject}"


def test_box_of_the_directory_signs_in(front_end: Any, service: Service, tmp_path: Path) -> None:
    with run_slapd(tmp_path) as directory:
        save(
            service, ldap_login_enabled="true", ldap_server=directory.plain, ldap_manager_dn=MANAGER,
            ldap_manager_password=MANAGER_PASSWORD, ldap_user_search_base=BASE, ldap_default_permission="8",
        )  # fmt: skip
        front_end.goto("/@login")
        fill_names(front_end, "bob", "wrong")
        front_end.get_by_text("Invalid username or password").wait_for()
        fill_names(front_end, "bob", DIRECTORY_PASSWORD)
        assert wait_for_user(front_end, service) == "bob"
    save(service, ldap_login_enabled="false")


def test_passkey_is_registered_used_and_removed(front_end: Any, service: Service) -> None:
    service.client().ok("/api/admin/user/create", username="petra", password=PASSWORD, base_path="/files", permission=8)
    save(service, webauthn_login_enabled="true")
    front_end.goto("/@login")
    fill_names(front_end, "petra", PASSWORD)
    assert wait_for_user(front_end, service) == "petra"
    add_authenticator(front_end)
    front_end.goto("/@manage")
    front_end.get_by_role("button", name="Add a Webauthn credential").click()
    front_end.get_by_text("success", exact=False).first.wait_for()
    front_end.reload()
    front_end.get_by_text("Fingerprint:").wait_for()
    front_end.evaluate("localStorage.removeItem('token')")
    front_end.goto("/@login")  # the browser offers the passkey at once
    assert wait_for_user(front_end, service) == "petra"
    front_end.goto("/@manage")
    front_end.get_by_role("button", name="Delete").click()
    front_end.get_by_text("Fingerprint:").wait_for(state="detached")
    assert service.client("petra", PASSWORD).get("/api/authn/getcredentials")["data"] == []
    save(service, webauthn_login_enabled="false")

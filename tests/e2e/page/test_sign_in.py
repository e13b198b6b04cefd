"""Ways to sign in beside the password: passkeys, single sign-on, and tokens of programs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import oidc_provider_mock
import pyotp
import pytest

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import fill_sign_in, find_violations
from tests.support.service import Client, Service
from tests.support.slapd import BASE, MANAGER, MANAGER_PASSWORD, run_slapd
from tests.support.slapd import PASSWORD as DIRECTORY_PASSWORD

PASSWORD = "seven green bottles"


@pytest.fixture
def passkeys_on(service: Service) -> Iterator[None]:
    """Passkeys are on meanwhile."""
    save(service, webauthn_login_enabled="true")
    yield
    save(service, webauthn_login_enabled="false")


def save(service: Service, **values: str) -> None:
    admin = service.client()
    body = [{"key": key, "value": value} for key, value in values.items()]
    assert admin.envelope(admin.http.post("/api/admin/setting/save", json=body))["code"] == 200


def add_authenticator(page: Any) -> None:
    """Give the browser an authenticator that verifies the user."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    session.send("WebAuthn.addVirtualAuthenticator", {"options": options})


@pytest.mark.usefixtures("passkeys_on")
def test_a_passkey_is_registered_used_and_removed(page: Any, service: Service, shots: Path) -> None:
    width = page.viewport_size["width"]
    name = f"petra{width}"
    service.client().ok("/api/admin/user/create", username=name, password=PASSWORD, base_path="/files", permission=8)
    address = service.address.replace("127.0.0.1", "localhost")  # a relying party has a name
    add_authenticator(page)
    page.goto(f"{address}/@profile")
    fill_sign_in(page, name, PASSWORD)
    page.get_by_role("button", name="Add a passkey").click()
    page.get_by_label("Name of the passkey").fill("laptop")
    page.screenshot(path=shots / f"passkey-dialog-{width}.png")
    page.get_by_role("dialog").get_by_role("button", name="Add a passkey").click()
    page.get_by_text("Passkey added").wait_for()
    page.get_by_role("button", name="Remove the passkey laptop").scroll_into_view_if_needed()
    page.screenshot(path=shots / f"passkeys-{width}.png")
    assert find_violations(page, AXE) == []

    page.get_by_role("button", name="Account").click()
    page.get_by_role("menuitem", name="Sign out").click()
    page.get_by_label("User name").wait_for()
    page.screenshot(path=shots / f"sign-in-passkey-{width}.png")
    assert find_violations(page, AXE) == []
    page.get_by_role("button", name="Sign in with a passkey").click()
    page.get_by_role("heading", name="Profile").wait_for()
    page.get_by_role("button", name="Account").get_by_text(name).wait_for(state="attached")

    page.get_by_role("button", name="Remove the passkey laptop").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    page.get_by_text("There are no passkeys").wait_for()


@pytest.mark.usefixtures("passkeys_on")
def test_a_sign_in_without_a_passkey_says_so(page: Any, service: Service) -> None:
    add_authenticator(page)
    page.goto(service.address.replace("127.0.0.1", "localhost"))
    page.get_by_role("button", name="Sign in with a passkey").click()
    page.get_by_text("No passkey was used").wait_for()
    fill_sign_in(page)
    page.get_by_role("grid").wait_for()


def test_a_token_is_made_shown_once_and_used(page: Any, service: Service, shots: Path) -> None:
    width = page.viewport_size["width"]
    name = f"tom{width}"
    admin = service.client()
    admin.ok("/api/admin/user/create", username=name, password=PASSWORD, base_path="/files", permission=8)
    admin.put(f"/files/tokens{width}/a.txt", b"text")
    page.goto("/@profile")
    fill_sign_in(page, name, PASSWORD)
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name of the token").fill("backup")
    page.get_by_label("WebDAV").check()
    page.get_by_label("Access").select_option("Read only")
    page.get_by_label("Folder").fill(f"/tokens{width}")
    page.screenshot(path=shots / f"token-dialog-{width}.png")
    assert find_violations(page, AXE) == []
    page.get_by_role("button", name="Create token").click()
    text = page.get_by_label("Your new token").input_value()
    page.get_by_text(f"Read only · in /tokens{width} · API and WebDAV · until").wait_for()
    page.get_by_label("Your new token").scroll_into_view_if_needed()
    page.screenshot(path=shots / f"token-{width}.png")
    assert find_violations(page, AXE) == []

    program = Client(service.address, f"Bearer {text}")
    assert program.names("/") == ["a.txt"]
    assert program.post("/api/fs/mkdir", path="/new")["code"] == 403
    page.reload()
    page.get_by_role("button", name="Remove the token backup").click()
    assert page.get_by_label("Your new token").count() == 0
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    page.get_by_text("There are no tokens").wait_for()
    assert program.post("/api/fs/list", path="/")["code"] == 401


def test_a_token_for_administration_needs_a_code(page: Any, service: Service, shots: Path) -> None:
    """Each step of the factor has one code: the first is used for setting it up, the others in the page."""
    width = page.viewport_size["width"]
    admin = service.client()
    factor = pyotp.TOTP(admin.ok("/api/auth/2fa/generate")["secret"])
    admin.ok("/api/auth/2fa/verify", secret=factor.secret, code=factor.at(int(time.time()) - factor.interval))
    page.goto("/@manage/settings/access")
    fill_sign_in(page)
    page.get_by_label("Two-factor code").fill(factor.now())
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("We advise against this token").wait_for()
    page.get_by_role("link", name="profile").click()
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name of the token").fill("operator")
    page.get_by_label("Administration").check()
    page.screenshot(path=shots / f"token-administration-{width}.png")
    assert find_violations(page, AXE) == []
    page.get_by_label("Current two-factor code").fill("000000")
    page.get_by_role("button", name="Create token").click()
    page.get_by_text("The two-factor code is wrong or already used.").wait_for()
    page.get_by_label("Current two-factor code").fill(factor.at(int(time.time()) + factor.interval))
    page.get_by_role("button", name="Create token").click()
    text = page.get_by_label("Your new token").input_value()
    program = Client(service.address, f"Bearer {text}")
    assert program.get("/api/me")["data"]["role"] == 2
    program.ok("/api/admin/user/cancel_2fa", params={"id": 1})
    admin = service.client()
    for token in admin.get("/api/me/token/list")["data"]["content"]:
        admin.ok("/api/me/token/delete", params={"id": token["id"]})
    assert program.get("/api/admin/user/list")["code"] == 401


@pytest.fixture
def provider(service: Service) -> Iterator[None]:
    """A real provider of OpenID Connect is set up meanwhile."""
    with oidc_provider_mock.run_server_in_thread(require_nonce=True) as server:
        values = {
            "sso_login_enabled": "true", "sso_login_platform": "OIDC", "sso_client_id": "mangrove",
            "sso_client_secret": "not a secret", "sso_endpoint_name": f"http://localhost:{server.server_port}",
            "sso_auto_register": "true", "sso_oidc_username_key": "email", "sso_default_permission": "8",
        }  # fmt: skip
        save(service, **values)
        yield
        save(service, sso_login_enabled="false")


@pytest.mark.usefixtures("provider")
def test_single_sign_on_in_a_window_signs_in_and_links_an_account(page: Any, service: Service, shots: Path) -> None:
    width = page.viewport_size["width"]
    page.goto(service.address.replace("127.0.0.1", "localhost"))
    page.get_by_role("button", name="Sign in with single sign-on").wait_for()
    page.screenshot(path=shots / f"sign-in-sso-{width}.png")
    assert find_violations(page, AXE) == []
    consent(page, "Sign in with single sign-on", f"ann{width}@example.org")
    page.get_by_role("grid").wait_for()
    assert "token" not in page.url

    page.get_by_role("button", name="Account").click()
    page.get_by_role("menuitem", name="Profile").click()
    page.get_by_text(f"#ann{width}@example.org").wait_for()
    page.get_by_role("button", name="Remove the link").click()
    page.get_by_text("Link removed").wait_for()
    consent(page, "Link an account", f"ben{width}@example.org")
    page.get_by_text("Account linked").wait_for()
    page.get_by_text(f"#ben{width}@example.org").wait_for()


def consent(page: Any, button: str, subject: str) -> None:
    """Open the window of the provider by a button, and sign in there."""
    with page.expect_popup() as opened:
        page.get_by_role("button", name=button).click()
    opened.value.locator("input[name=sub]").fill(subject)
    opened.value.locator("button[type=submit]").first.click()


def test_a_user_of_the_directory_signs_in(page: Any, service: Service, tmp_path: Path, shots: Path) -> None:
    width = page.viewport_size["width"]
    with run_slapd(tmp_path) as directory:
        values = {
            "ldap_login_enabled": "true", "ldap_server": directory.plain, "ldap_manager_dn": MANAGER,
            "ldap_manager_password": MANAGER_PASSWORD, "ldap_user_search_base": BASE, "ldap_default_permission": "8",
        }  # fmt: skip
        save(service, **values)
        page.goto("/")
        page.get_by_label("My account is in the directory").check()
        page.screenshot(path=shots / f"sign-in-directory-{width}.png")
        assert find_violations(page, AXE) == []
        fill_sign_in(page, "bob", "wrong")
        page.get_by_text("is wrong").wait_for()
        fill_sign_in(page, "bob", DIRECTORY_PASSWORD)
        page.get_by_role("grid").wait_for()
        page.get_by_role("button", name="Account").click()
        page.get_by_role("menuitem", name="Sign out").click()
        assert page.get_by_label("My account is in the directory").is_checked()
    save(service, ldap_login_enabled="false")

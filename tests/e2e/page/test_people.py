"""Users, rules, and the own account."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyotp

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import fill_sign_in, find_violations
from tests.support.service import Client, Service

PASSWORD = "seven green bottles"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGXkQ1+8fT0Bn1b6m0bKxqTzK8qzFJkz4m8o3n9sG5aY ann@laptop"


def make_user(service: Service, name: str, permission: int = 0) -> Client:
    """A new user; the signed-in client."""
    service.client().ok(
        "/api/admin/user/create", username=name, password=PASSWORD, base_path="/files", permission=permission
    )
    return service.client(name, PASSWORD)


def find_user(service: Service, name: str) -> dict[str, Any] | None:
    rows = service.client().get("/api/admin/user/list")["data"]["content"]
    return next((row for row in rows if row["username"] == name), None)


def make_code(secret: str, later: int = 0) -> str:
    """The code of now, or that of so many steps later: one code is taken once."""
    return pyotp.TOTP(secret).at(int(time.time()) + 30 * later)


def test_a_user_is_made_changed_and_deleted(page: Any, service: Service, shots: Path) -> None:
    width = page.viewport_size["width"]
    name = f"ann{width}"
    page.goto("/@manage/users")
    fill_sign_in(page)
    page.get_by_role("button", name="New user").click()
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password", exact=True).fill("short")
    page.get_by_text("Strength: Weak").wait_for()
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_text("Strength: Strong").wait_for()
    page.get_by_label("Home folder").fill("/files")
    page.get_by_label("Rename").check()
    page.get_by_label("Upload and create").check()
    page.screenshot(path=shots / f"user-form-{width}.png", full_page=True)
    assert find_violations(page, AXE) == []
    page.get_by_role("button", name="Save").click()

    page.get_by_role("link", name=name).wait_for()
    page.screenshot(path=shots / f"users-{width}.png")
    assert find_violations(page, AXE) == []
    user = find_user(service, name)
    assert user is not None
    assert (user["permission"], user["base_path"], user["role"]) == (8 | 16, "/files", 0)
    service.client(name, PASSWORD)

    page.get_by_role("link", name=name).click()
    page.get_by_label("Rename").uncheck()
    page.get_by_label("Disabled").check()
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name=name).get_by_text("Disabled").wait_for()
    user = find_user(service, name)
    assert user is not None
    assert (user["permission"], user["disabled"]) == (8, True)

    page.get_by_role("link", name=name).click()
    page.get_by_role("button", name="Delete the user").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_text("User deleted").wait_for()
    assert find_user(service, name) is None


def test_an_administrator_helps_who_lost_phone_and_key(page: Any, service: Service) -> None:
    name = f"ben{page.viewport_size['width']}"
    client = make_user(service, name)
    client.ok("/api/me/sshkey/add", title="lost laptop", key=KEY)
    secret = client.ok("/api/auth/2fa/generate")["secret"]
    client.ok("/api/auth/2fa/verify", secret=secret, code=make_code(secret))

    page.goto("/@manage/users")
    fill_sign_in(page)
    page.get_by_role("link", name=name).click()
    page.get_by_role("button", name="Remove the key lost laptop").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    page.get_by_text("There are no keys").wait_for()
    page.get_by_role("button", name="Switch off the second factor").click()
    page.get_by_role("dialog").get_by_role("button", name="Switch off").click()
    page.get_by_text("Second factor switched off").wait_for()
    assert service.client(name, PASSWORD).get("/api/me/sshkey/list")["data"]["total"] == 0


def test_a_rule_guards_hides_and_explains_a_folder(page: Any, service: Service, shots: Path) -> None:
    width = page.viewport_size["width"]
    folder = f"/files/ruled{width}"
    admin = service.client()
    for name in ("a.txt", "b.TMP", ".secret"):
        admin.put(f"{folder}/{name}", b"text")
    reader = make_user(service, f"reader{width}")

    page.goto("/@manage/rules")
    fill_sign_in(page)
    page.get_by_role("button", name="New rule").click()
    page.get_by_label("Path").fill(folder)
    page.get_by_label("Folder password", exact=True).fill("sesame")
    page.get_by_label("Regular expressions").fill("(?i)\\.tmp$\n^\\.")
    page.get_by_label("Try a name").fill("x.tmp")
    page.get_by_text("This name would be hidden").wait_for()
    page.get_by_label("Try a name").fill("x.txt")
    page.get_by_text("This name would be shown").wait_for()
    page.get_by_role("button", name="Try the names").click()
    page.get_by_text("Hidden names: ").wait_for()
    page.get_by_label("Markdown above").fill("# Welcome")
    page.screenshot(path=shots / f"rule-form-{width}.png", full_page=True)
    assert find_violations(page, AXE) == []
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name=folder).wait_for()
    page.screenshot(path=shots / f"rules-{width}.png")
    listing = reader.ok("/api/fs/list", path=folder.removeprefix("/files"), password="sesame")
    assert [entry["name"] for entry in listing["content"]] == ["a.txt"]
    assert listing["header"] == "# Welcome"
    assert reader.post("/api/fs/list", path=folder.removeprefix("/files"))["code"] == 403

    page.get_by_role("link", name=folder).click()
    page.get_by_label("Regular expressions").fill("(")
    page.get_by_text("cannot try this pattern").wait_for()
    page.get_by_role("button", name="Save").click()
    page.get_by_role("alert").wait_for()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_text("Rule deleted").wait_for()
    assert page.get_by_role("link", name=folder).count() == 0


def test_a_new_password_ends_the_other_sessions(page: Any, service: Service, shots: Path) -> None:
    width = page.viewport_size["width"]
    name, password = f"cleo{width}", "another long password"
    other = make_user(service, name, 8)
    page.goto("/@profile")
    fill_sign_in(page, name, PASSWORD)
    page.get_by_role("heading", name="Profile").wait_for()
    page.screenshot(path=shots / f"profile-{width}.png", full_page=True)
    assert find_violations(page, AXE) == []
    page.get_by_label("New password", exact=True).fill(password)
    page.get_by_label("Repeat the new password", exact=True).fill(password + "x")
    page.get_by_text("passwords do not match").wait_for()
    page.get_by_label("Repeat the new password", exact=True).fill(password)
    page.get_by_role("button", name="Change the password").click()
    page.get_by_text("Password changed").wait_for()
    assert other.get("/api/me")["code"] == 401
    other = service.client(name, password)

    page.get_by_role("button", name="Sign out everywhere else").click()
    page.get_by_role("dialog").get_by_role("button", name="Sign out everywhere").click()
    page.get_by_role("dialog").wait_for(state="detached")
    assert other.get("/api/me")["code"] == 401
    page.get_by_label("Stay signed in").check()
    page.reload()
    page.get_by_role("heading", name="Profile").wait_for()


def test_a_second_factor_is_set_up_used_and_replaced(page: Any, service: Service, shots: Path) -> None:
    width = page.viewport_size["width"]
    name = f"dora{width}"
    make_user(service, name)
    page.goto("/@profile")
    fill_sign_in(page, name, PASSWORD)
    page.get_by_role("button", name="Set up").click()
    assert page.get_by_role("img", name="QR code").evaluate("image => image.decode().then(() => image.naturalWidth)")
    page.screenshot(path=shots / f"second-factor-{width}.png")
    assert find_violations(page, AXE) == []
    secret = page.locator("dialog code").text_content()
    page.get_by_label("Code from the app").fill("000000")
    page.get_by_role("button", name="Switch on").click()
    page.get_by_text("The code is wrong").wait_for()
    page.get_by_label("Code from the app").fill(make_code(secret))
    page.get_by_role("button", name="Switch on").click()
    page.get_by_role("dialog").wait_for(state="detached")
    page.get_by_role("button", name="Replace").click()
    newer = page.locator("dialog code").text_content()
    page.get_by_label("Current two-factor code").fill("000000")
    page.get_by_label("Code from the app").fill(make_code(newer))
    page.get_by_role("button", name="Switch on").click()
    page.get_by_text("is wrong or already used").wait_for()
    page.get_by_label("Current two-factor code").fill(make_code(secret, 1))
    page.get_by_role("button", name="Switch on").click()
    page.get_by_role("dialog").wait_for(state="detached")

    page.get_by_role("button", name="Sign out", exact=True).click()
    fill_sign_in(page, name, PASSWORD)
    page.get_by_label("Two-factor code").fill(make_code(newer, 1))
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Profile").wait_for()
    page.get_by_text("The second factor is on").first.wait_for()


def test_ssh_keys_are_added_and_removed(page: Any, service: Service, shots: Path) -> None:
    width = page.viewport_size["width"]
    client = make_user(service, f"emil{width}")
    page.goto("/@profile")
    fill_sign_in(page, f"emil{width}", PASSWORD)
    page.get_by_role("button", name="Add a key").click()
    page.get_by_label("Public key").fill("no key")
    page.get_by_label("Name of the key").fill("laptop")
    page.get_by_role("dialog").get_by_role("button", name="Add a key").click()
    page.get_by_role("alert").wait_for()
    page.get_by_label("Public key").fill(KEY)
    page.get_by_role("dialog").get_by_role("button", name="Add a key").click()
    page.get_by_text("Never used").wait_for()
    page.screenshot(path=shots / f"keys-{width}.png", full_page=True)
    assert client.get("/api/me/sshkey/list")["data"]["content"][0]["title"] == "laptop"
    page.get_by_role("button", name="Remove the key laptop").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    page.get_by_text("There are no keys").wait_for()


def test_a_group_is_made_used_changed_and_deleted(page: Any, service: Service, shots: Path) -> None:
    width = page.viewport_size["width"]
    name = f"gina{width}"
    member = make_user(service, name)
    service.client().put(f"/files/grouped{width}/a.txt", b"text")
    assert member.post("/api/fs/mkdir", path=f"/grouped{width}/new")["code"] == 403
    page.goto("/@manage/groups")
    fill_sign_in(page)
    page.get_by_role("button", name="New group").click()
    page.get_by_label("Name of the group").fill(f"editors {width}")
    page.get_by_label(name, exact=True).check()
    page.get_by_label("Sign in over WebDAV").check()
    page.get_by_role("button", name="Add a folder").click()
    folder = page.get_by_role("group", name="Folder 1")
    folder.get_by_label("Folder", exact=True).fill(f"/files/grouped{width}")
    folder.get_by_label("Upload and create").check()
    page.screenshot(path=shots / f"group-form-{width}.png", full_page=True)
    assert find_violations(page, AXE) == []
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name=f"editors {width}").get_by_text("1 member").wait_for()
    page.screenshot(path=shots / f"groups-{width}.png")
    assert find_violations(page, AXE) == []
    assert member.post("/api/fs/mkdir", path=f"/grouped{width}/new")["code"] == 200
    assert member.post("/api/fs/mkdir", path="/elsewhere")["code"] == 403

    page.get_by_role("link", name=f"editors {width}").click()
    page.get_by_role("button", name=f"Remove the folder /files/grouped{width}").click()
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name=f"editors {width}").wait_for()
    assert member.post("/api/fs/mkdir", path=f"/grouped{width}/newer")["code"] == 403
    page.get_by_role("link", name=f"editors {width}").click()
    page.get_by_role("button", name="Delete the group").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_text("Group deleted").wait_for()
    assert page.get_by_role("link", name=f"editors {width}").count() == 0

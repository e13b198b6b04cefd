"""Administration: storages, settings, download tools, the search index, backup and restore."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from mangrove.drivers import registry
from tests import servers
from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import fill_sign_in, find_violations
from tests.servers import ssh
from tests.support.service import Client, Service

wide = pytest.mark.parametrize("page", ["wide"], indirect=True)


@pytest.fixture(scope="module")
def admin(service: Service) -> Client:
    return service.client()


def open_section(page: Any, section: str) -> None:
    page.goto(f"/@manage/{section}")
    fill_sign_in(page)
    page.get_by_role("heading", level=1).wait_for()


def row(page: Any, path: str) -> Any:
    """A storage in the list."""
    return page.get_by_role("listitem", name=path, exact=True)


def choose(page: Any, path: str, item: str) -> None:
    """Choose from the menu of a storage."""
    row(page, path).get_by_role("button", name=f"Actions for {path}").click()
    page.get_by_role("menuitem", name=item, exact=True).click()


def add_local(admin: Client, path: str, folder: Path, **more: Any) -> int:
    addition = json.dumps({"root_folder_path": str(folder)})
    return int(admin.ok("/api/admin/storage/create", mount_path=path, driver="Local", addition=addition, **more)["id"])


def drop_storages(admin: Client) -> None:
    for storage in admin.get("/api/admin/storage/list")["data"]["content"]:
        if storage["mount_path"] != "/files":
            admin.ok("/api/admin/storage/delete", params={"id": storage["id"]})


@pytest.mark.parametrize(
    ("page", "scheme"), [("wide", "light"), ("wide", "dark"), ("phone", "light")], indirect=["page"]
)
def test_every_section_is_accessible(page: Any, scheme: str, shots: Path) -> None:
    page.emulate_media(color_scheme=scheme)
    open_section(page, "")
    for name in ("Storages", "Settings", "Tools", "Search index", "Backup"):
        page.get_by_role("navigation", name="Manage").get_by_role("link", name=name).click()
        page.get_by_role("heading", level=1, name=name).wait_for()
        page.locator("main").get_by_role("button").first.wait_for()
        page.screenshot(path=shots / f"manage-{name}-{scheme}-{page.viewport_size['width']}.png")
        assert find_violations(page, AXE) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_storage_is_made_changed_and_removed(page: Any, admin: Client, tmp_path: Path, shots: Path) -> None:
    drop_storages(admin)
    hidden = admin.get("/api/admin/setting/get", key="hide_storage_details_in_manage_page")["data"]
    admin.http.post("/api/admin/setting/save", json=[hidden | {"value": "false"}])
    (tmp_path / "letter.txt").write_text("text")
    open_section(page, "storages")
    row(page, "/files").get_by_text(re.compile(" of .* used")).wait_for()
    page.get_by_role("button", name="New storage").click()
    page.get_by_role("radio", name="Local", exact=True).wait_for()
    assert page.evaluate("document.activeElement.tagName") == "H1"
    page.get_by_role("radio", name="Local", exact=True).check()
    page.get_by_role("button", name="Add the storage").click()
    page.get_by_text("This field is required.").wait_for()
    assert page.evaluate("document.activeElement.labels[0].textContent").startswith("Mount path")
    page.screenshot(path=shots / f"form-{page.viewport_size['width']}.png")
    assert find_violations(page, AXE) == []
    page.get_by_label("Mount path").fill("/here/local")
    page.get_by_label("Root folder path").fill(str(tmp_path / "nowhere"))
    page.get_by_role("button", name="Add the storage").click()
    page.get_by_text("Not working").wait_for()
    page.get_by_text(re.compile("nowhere.* not exist")).first.wait_for()
    page.get_by_label("Root folder path").fill(str(tmp_path))
    page.get_by_role("button", name="Save").click()
    row(page, "/here/local").get_by_text("Working", exact=True).wait_for()

    choose(page, "/here/local", "Disable")
    row(page, "/here/local").get_by_text("Disabled").wait_for()
    choose(page, "/here/local", "Enable")
    row(page, "/here/local").get_by_text("Working", exact=True).wait_for()
    choose(page, "/here/local", "Test the connection")
    row(page, "/here/local").get_by_text("It works. The folder has 0 folders.").wait_for()
    shutil.move(tmp_path, f"{tmp_path}-away")
    choose(page, "/here/local", "Test the connection")
    row(page, "/here/local").get_by_text(re.compile("It does not work: .*not exist")).wait_for()
    page.get_by_role("button", name="Reload all").click()
    row(page, "/here/local").get_by_text("Not working").wait_for()
    page.get_by_text("2 storages, 1 not working").wait_for()
    page.screenshot(path=shots / f"storages-{page.viewport_size['width']}.png")
    assert find_violations(page, AXE) == []
    shutil.move(f"{tmp_path}-away", tmp_path)
    choose(page, "/here/local", "Reload")
    row(page, "/here/local").get_by_text("Working", exact=True).wait_for()

    row(page, "/here/local").get_by_role("link", name="/here/local").click()
    page.get_by_text("More options").click()
    page.get_by_label("Remark").fill("papers of the house")
    page.get_by_label("Sorted by").select_option("size")
    page.get_by_role("button", name="Save").click()
    row(page, "/here/local").get_by_text("papers of the house").wait_for()
    choose(page, "/here/local", "Open the folder")
    page.get_by_role("link", name="letter.txt").wait_for()

    page.go_back()
    choose(page, "/here/local", "Remove")
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    row(page, "/here/local").wait_for(state="detached")
    assert (tmp_path / "letter.txt").exists()


@wide
def test_an_s3_storage_works_and_shows_no_secret(page: Any, admin: Client, tmp_path: Path, shots: Path) -> None:
    (tmp_path / "buckets").mkdir()
    with servers.rclone_s3(tmp_path / "buckets") as endpoint:
        options = servers.s3_options(endpoint, servers.make_bucket(endpoint))
        open_section(page, "storages/new")
        page.get_by_label("Mount path").fill("s3")
        page.get_by_role("radio", name="S3", exact=True).check()
        page.get_by_label("Bucket", exact=True).fill(options["bucket"])
        page.get_by_label("Endpoint").fill(endpoint)
        page.get_by_label("Access key ID").fill(options["access_key_id"])
        page.get_by_label("Secret access key", exact=True).fill(options["secret_access_key"])
        page.get_by_label("Force path style").check()
        page.screenshot(path=shots / "form-s3.png", full_page=True)
        page.get_by_role("button", name="Add the storage").click()
        row(page, "/s3").get_by_text("Working", exact=True).wait_for()
        assert admin.put("/s3/letter.txt", b"text")["code"] == 200
        row(page, "/s3").get_by_role("link").click()
        secret = page.get_by_label("Secret access key", exact=True)
        assert (secret.get_attribute("type"), secret.input_value()) == ("password", options["secret_access_key"])
        page.get_by_role("button", name="Show Secret access key").click()
        assert secret.get_attribute("type") == "text"
        page.get_by_text("More options").click()
        page.get_by_label("User agent").fill("a test")
        page.get_by_role("button", name="Save").click()
        choose(page, "/s3", "Open the folder")
        page.get_by_role("link", name="letter.txt").wait_for()
        stored = next(
            entry for entry in admin.get("/api/admin/storage/list")["data"]["content"] if entry["driver"] == "S3"
        )
        assert json.loads(stored["addition"]) | options == json.loads(stored["addition"])
        drop_storages(admin)


@wide
def test_a_new_host_key_is_looked_at_and_accepted(page: Any, admin: Client, tmp_path: Path, shots: Path) -> None:
    if ssh.SSHD is None:
        pytest.skip("sshd is not installed")
    drop_storages(admin)
    (tmp_path / "served").mkdir()
    with ssh.openssh(tmp_path) as server:
        options = server.options(tmp_path / "served", private_key=ssh.export(ssh.make_key("stranger")))
        open_section(page, "storages/new")
        page.get_by_role("radio", name="SFTP", exact=True).check()
        page.get_by_label("Mount path").fill("/box")
        for label, name in (("Address", "address"), ("Username", "username"), ("Root folder path", "root_folder_path")):
            page.get_by_label(label).fill(options[name])
        page.get_by_label("Private key", exact=True).fill(options["private_key"])
        page.get_by_role("button", name="Add the storage").click()
        page.get_by_text("Not working").wait_for()  # a key that the server does not know
        page.screenshot(path=shots / "storage-wrong-key.png")
        page.get_by_label("Private key", exact=True).fill(ssh.export(ssh.make_key("client")))
        page.get_by_role("button", name="Save").click()
        row(page, "/box").get_by_text("Working", exact=True).wait_for()

        server.write_host_key("another")
        server.restart()
        page.get_by_role("button", name="Reload all").click()
        page.get_by_role("button", name="Show the new key").click()
        dialog = page.get_by_role("dialog")
        assert ssh.make_key("another").get_fingerprint() in dialog.inner_text()
        page.screenshot(path=shots / "host-key.png")
        assert find_violations(page, AXE) == []
        dialog.get_by_role("button", name="Accept the new key").click()
        row(page, "/box").get_by_text("Working", exact=True).wait_for()
        drop_storages(admin)


def test_the_order_is_changed_by_dragging_and_without(page: Any, admin: Client, tmp_path: Path) -> None:
    drop_storages(admin)
    first = admin.get("/api/admin/storage/list")["data"]["content"][0]
    admin.ok("/api/admin/storage/update", **first | {"order": 0})
    for name in "abc":
        add_local(admin, f"/{name}", tmp_path)
    open_section(page, "storages")

    def expect(*paths: str) -> None:
        for index, path in enumerate(paths):
            page.locator(f"ol > li:nth-child({index + 1})[aria-label='{path}']").wait_for()
        with_order = admin.get("/api/admin/storage/list")["data"]["content"]
        assert [row["mount_path"] for row in with_order] == list(paths)

    row(page, "/c").wait_for()
    with page.expect_response("**/api/admin/storage/list"):
        choose(page, "/c", "Move up")
    expect("/files", "/a", "/c", "/b")
    with page.expect_response("**/api/admin/storage/list"):
        handle, target = (row(page, path).get_by_label("Move").bounding_box() for path in ("/b", "/files"))
        page.mouse.move(handle["x"] + 15, handle["y"] + 15)
        page.mouse.down()
        page.mouse.move(handle["x"] + 15, handle["y"] - 10, steps=5)
        page.mouse.move(target["x"] + 15, target["y"] + 5, steps=20)
        page.mouse.up()
    expect("/b", "/files", "/a", "/c")
    row(page, "/c").get_by_label("Move").focus()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    with page.expect_response("**/api/admin/storage/list"):
        page.keyboard.press("Space")
    expect("/b", "/c", "/files", "/a")
    drop_storages(admin)


@wide
def test_the_secrets_of_every_driver_are_hidden(page: Any) -> None:
    open_section(page, "storages/new")
    for name in registry.list_names():
        page.get_by_role("radio", name=name, exact=True).check()
        page.get_by_role("group", name=name).wait_for()
        hidden = page.locator("form :is(input[type=password], textarea.masked)").count()
        assert hidden == len(registry.load(name).Options.list_secrets()), name


def test_settings_are_found_changed_and_set_back(page: Any, admin: Client, shots: Path) -> None:
    open_section(page, "settings")
    page.get_by_role("textbox", name="Site title").fill("The house")
    page.get_by_text("Settings of other front ends").click()
    page_size = page.get_by_role("textbox", name="Default page size")
    page_size.fill("many")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Enter a number.").wait_for()
    page_size.fill("40")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("banner").get_by_text("The house").wait_for()
    page.get_by_role("button", name="Set “Site title” to its default").click()
    page.get_by_text("1 change", exact=True).wait_for()
    page.screenshot(path=shots / f"settings-{page.viewport_size['width']}.png")
    assert find_violations(page, AXE) == []
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Set all of these to their defaults").click()
    page.get_by_role("button", name="Save").click()
    page.get_by_role("banner").get_by_text("Mangrove").wait_for()

    page.get_by_label("Find a setting").fill("filename char")
    page.get_by_label("Filename char mapping").fill("{")
    page.get_by_role("button", name="Save").click()
    page.locator("[aria-invalid=true]").wait_for()
    page.screenshot(path=shots / f"settings-refused-{page.viewport_size['width']}.png")
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("changes").wait_for(state="detached")


@wide
def test_the_token_is_hidden_and_made_anew(page: Any, admin: Client) -> None:
    before = admin.get("/api/admin/setting/get", key="token")["data"]["value"]
    open_section(page, "settings/access")
    field = page.get_by_label("Permanent token", exact=True)
    field.wait_for()
    assert (field.get_attribute("type"), field.input_value()) == ("password", before)
    page.get_by_role("button", name="Create a new token").click()
    page.get_by_role("dialog").get_by_role("button", name="Create a new token").click()
    page.get_by_text("New token created").wait_for()
    assert field.input_value() == admin.get("/api/admin/setting/get", key="token")["data"]["value"] != before


@wide
@pytest.mark.skipif(not shutil.which("aria2c"), reason="there is no aria2c here: apt-get install aria2")
def test_a_download_tool_is_offered_when_it_answers(page: Any, shots: Path) -> None:
    with servers.aria2() as aria2:
        open_section(page, "tools")
        card = page.get_by_role("region", name="aria2")
        card.get_by_text("Not available").wait_for()
        card.get_by_label("aria2 URI").fill(aria2.uri)
        card.get_by_label("aria2 secret", exact=True).fill("wrong")
        card.get_by_role("button", name="Save and connect").click()
        card.get_by_role("alert").wait_for()
        page.screenshot(path=shots / "tools.png")
        card.get_by_label("aria2 secret", exact=True).fill(aria2.secret)
        card.get_by_role("button", name="Save and connect").click()
        card.get_by_text("aria2 answers").wait_for()
        card.get_by_text("Available", exact=True).wait_for()
        assert find_violations(page, AXE) == []


@wide
def test_the_index_is_built_and_cleared(page: Any, admin: Client, shots: Path) -> None:
    for name in ("one.txt", "two.txt"):
        admin.put(f"/files/{name}", b"text")
    open_section(page, "index")
    page.get_by_label("Search index", exact=True).select_option("none")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Search is off").wait_for()
    page.get_by_label("Search index", exact=True).select_option("database")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("definition").filter(has_text="Idle").wait_for()
    page.get_by_role("button", name="Rebuild").click()
    page.get_by_role("definition").filter(has_text=re.compile("^[1-9]")).first.wait_for()
    page.get_by_role("definition").filter(has_text="Idle").wait_for()
    page.screenshot(path=shots / "index.png")
    assert find_violations(page, AXE) == []
    page.get_by_role("button", name="Update", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Folders, one per line").fill("/files")
    dialog.get_by_role("button", name="Update").click()
    dialog.wait_for(state="detached")
    page.get_by_role("definition").filter(has_text="Idle").wait_for()
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("definition").filter(has_text=re.compile("^0$")).wait_for()


def test_a_backup_brings_back_what_was(page: Any, admin: Client, tmp_path: Path, shots: Path) -> None:
    drop_storages(admin)
    name = f"anna{page.viewport_size['width']}"
    storage_id = add_local(admin, "/kept", tmp_path, remark="as it was")
    add_local(admin, "/lost", tmp_path)
    admin.ok("/api/admin/user/create", username=name, password="a long password", base_path="/kept", permission=8)
    user = next(row for row in admin.get("/api/admin/user/list")["data"]["content"] if row["username"] == name)
    admin.ok("/api/admin/meta/create", path=f"/kept/{name}", read_users=[user["id"]])

    open_section(page, "backup")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the backup").click()
    file = tmp_path / "backup.json"
    download.value.save_as(file)
    backup = json.loads(file.read_text())
    page.get_by_label("Backup file").set_input_files(file)
    page.get_by_text("Nothing differs from the backup").wait_for()

    for storage in admin.get("/api/admin/storage/list")["data"]["content"]:
        if storage["mount_path"] == "/lost":
            admin.ok("/api/admin/storage/delete", params={"id": storage["id"]})
        if storage["id"] == storage_id:
            admin.ok("/api/admin/storage/update", **storage | {"remark": "changed"})
    admin.ok("/api/admin/user/delete", params={"id": user["id"]})
    admin.ok("/api/admin/meta/delete", params={"id": find_meta(admin, f"/kept/{name}")["id"]})
    backup["storages"].append(backup["storages"][0] | {"mount_path": "/odd", "driver": "Nothing"})
    next(row for row in backup["settings"] if row["key"] == "site_title")["value"] = "From the backup"
    next(row for row in backup["settings"] if row["key"] == "filename_char_mapping")["value"] = "{"
    file.write_text(json.dumps(backup))
    page.get_by_label("Backup file").set_input_files([])
    page.get_by_label("Backup file").set_input_files(file)
    page.get_by_role("button", name="Restore").wait_for()
    page.screenshot(path=shots / f"restore-plan-{page.viewport_size['width']}.png")
    assert find_violations(page, AXE) == []
    page.get_by_role("button", name="Restore").click()
    page.get_by_text("2 need attention").wait_for()
    page.screenshot(path=shots / f"restore-{page.viewport_size['width']}.png")
    assert find_violations(page, AXE) == []
    results = page.locator("main li").all_inner_texts()

    def find_result(entry: str) -> str:
        return next(text for text in results if text.startswith(entry))

    assert "no driver named" in find_result("/odd")
    assert "failed" in find_result("Filename char mapping")
    assert "changed" in find_result("/kept Storages") and "created" in find_result("/lost")
    assert "needs a password" in find_result(name)
    page.get_by_role("banner").get_by_text("From the backup").wait_for()
    again = next(row for row in admin.get("/api/admin/user/list")["data"]["content"] if row["username"] == name)
    assert find_meta(admin, f"/kept/{name}")["read_users"] == [again["id"]]
    stored = {row["mount_path"]: row for row in admin.get("/api/admin/storage/list")["data"]["content"]}
    assert stored["/kept"]["remark"] == "as it was" and stored["/lost"]["status"] == "work"

    page.get_by_label("Backup file").set_input_files(__file__)
    page.get_by_text("This is not a backup").wait_for()
    admin.ok("/api/admin/meta/delete", params={"id": find_meta(admin, f"/kept/{name}")["id"]})
    drop_storages(admin)


def find_meta(admin: Client, path: str) -> dict[str, Any]:
    rows = admin.get("/api/admin/meta/list")["data"]["content"]
    return next(row for row in rows if row["path"] == path)

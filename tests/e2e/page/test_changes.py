"""Work with files as a person does it: make, rename, move, copy, remove, download, unpack, fetch."""

from __future__ import annotations

import io
import json
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import fill_sign_in, find_violations, select_row, sign_in
from tests.support.service import Client, Service, quote_path

PASSWORD = "a long password"
wide = pytest.mark.parametrize("page", ["wide"], indirect=True)


@pytest.fixture
def client(service: Service) -> Client:
    return service.client()


@pytest.fixture
def folder(client: Client, request: pytest.FixtureRequest) -> str:
    """A new folder with three files and two folders."""
    path = f"/files/{request.node.name}"
    for name in ("alpha.txt", "beta.txt", "gamma.png", "inner/deep/one.txt", "other/two.txt"):
        assert client.put(f"{path}/{name}", name.encode())["code"] == 200
    return path


def open_folder(page: Any, folder: str) -> None:
    sign_in(page, f"/@{folder}")
    page.get_by_role("row", name="alpha.txt").wait_for()


def select_several(page: Any, *names: str) -> None:
    for name in names:
        page.get_by_role("checkbox", name=f"Select {name}").click()
    page.get_by_text(f"{len(names)} selected").wait_for()


def choose(page: Any, item: str) -> None:
    """An action of the selection, from the menu that keys open."""
    page.get_by_role("grid").focus()
    page.keyboard.press("Shift+F10")
    page.get_by_role("menuitem", name=item, exact=True).click()
    page.get_by_role("dialog").wait_for()


def go_to(page: Any, *letters: str) -> None:
    """Open folders in the picker, from the root on, by letters and Enter."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Home", exact=True).click()
    for word in letters:
        field = dialog.get_by_role("combobox", name="Find a folder")
        field.fill(word)
        dialog.get_by_role("option", name=word).first.wait_for()
        field.press("Enter")
        dialog.locator("[aria-current=location]", has_text=word).wait_for()


def wait_for_names(client: Client, folder: str, names: list[str], seconds: float = 20) -> None:
    """Until a task has put them there."""
    end = time.monotonic() + seconds
    while client.post("/api/fs/list", path=folder)["code"] != 200 or client.names(folder) != names:
        assert time.monotonic() < end, names
        time.sleep(0.1)


def read(client: Client, path: str) -> bytes:
    return client.bytes(path).content


@wide
def test_new_folder_and_new_file_by_keyboard(page: Any, client: Client, folder: str) -> None:
    open_folder(page, folder)
    page.get_by_role("button", name="New", exact=True).press("Enter")
    page.get_by_role("menuitem", name="New folder").press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.type("albums")
    page.keyboard.press("Enter")
    page.locator("[role=row][aria-selected=true]", has_text="albums").wait_for()

    page.get_by_role("button", name="New", exact=True).press("Enter")
    page.get_by_role("menuitem", name="New folder").press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.type("albums")
    page.keyboard.press("Enter")
    page.get_by_role("alert").get_by_text("already taken").wait_for()
    page.keyboard.press("Escape")

    page.get_by_role("button", name="New", exact=True).press("Enter")
    page.get_by_role("menuitem", name="New file").press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.type("alpha")
    page.keyboard.press("Enter")
    page.get_by_role("alert").get_by_text("already taken").wait_for()
    page.keyboard.press("Control+a")
    page.keyboard.type("notes.md")
    page.keyboard.press("Enter")
    page.locator("[role=row][aria-selected=true]", has_text="notes.md").wait_for()
    assert {"albums", "notes.md"} <= set(client.names(folder))
    assert read(client, f"{folder}/alpha.txt") == b"alpha.txt"


def test_move_with_the_picker(page: Any, client: Client, folder: str, shots: Path) -> None:
    width = page.viewport_size["width"]
    open_folder(page, folder)
    select_row(page, "alpha")
    choose(page, "Move to…")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("The items are already in this folder").wait_for()
    assert dialog.get_by_role("button", name="Move to").is_disabled()
    dialog.get_by_role("option", name="inner").wait_for()
    page.screenshot(path=shots / f"picker-{width}.png")
    assert find_violations(page, AXE) == []

    field = dialog.get_by_role("combobox")
    field.press("ArrowDown")
    field.press("Enter")
    dialog.get_by_role("option", name="deep").wait_for()
    field.press("Backspace")
    dialog.get_by_role("option", name="other").wait_for()
    field.fill("oth")
    field.press("Enter")
    dialog.get_by_text("No subfolders.").wait_for()
    dialog.get_by_role("button", name="New folder").press("Enter")
    page.keyboard.type("fresh")
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Move to “fresh”").wait_for()
    field.press("Enter")  # nothing is looked for: the dialog's own
    page.get_by_text("Moved to “fresh”").wait_for()
    page.get_by_role("row", name="alpha.txt").wait_for(state="detached")
    assert client.names(f"{folder}/other/fresh") == ["alpha.txt"]

    select_row(page, "beta")
    choose(page, "Move to…")
    page.get_by_role("button", name="Move to “fresh”").click()  # the place is remembered
    page.get_by_role("row", name="beta.txt").wait_for(state="detached")
    assert client.names(f"{folder}/other/fresh") == ["alpha.txt", "beta.txt"]
    page.get_by_role("button", name="Undo").last.click()
    page.get_by_role("row", name="beta.txt").wait_for()
    assert client.names(f"{folder}/other/fresh") == ["alpha.txt"]


@wide
def test_a_folder_does_not_go_into_itself(page: Any, folder: str) -> None:
    open_folder(page, folder)
    select_row(page, "inner")
    choose(page, "Copy to…")
    dialog = page.get_by_role("dialog")
    option = dialog.get_by_role("option", name="inner")
    option.click(force=True)
    assert option.get_attribute("aria-disabled") == "true"
    dialog.get_by_text("The items are already in this folder").wait_for()
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert page.get_by_role("grid").evaluate("grid => grid === document.activeElement")


def test_names_that_are_taken_are_named_and_asked_about(page: Any, client: Client, folder: str, shots: Path) -> None:
    client.put(f"{folder}/other/alpha.txt", b"old")
    client.put(f"{folder}/other/gamma.png", b"old")
    open_folder(page, folder)
    select_several(page, "alpha.txt", "beta.txt", "gamma.png")
    choose(page, "Move to…")
    go_to(page, *folder.strip("/").split("/"), "other")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Move to “other”").click()
    dialog.get_by_text("“other” already has: “alpha.txt” and “gamma.png”").wait_for()
    page.screenshot(path=shots / f"conflict-{page.viewport_size['width']}.png")
    assert find_violations(page, AXE) == []
    assert client.names(f"{folder}/other") == ["alpha.txt", "gamma.png", "two.txt"]
    dialog.get_by_role("radio", name="Skip").check()
    dialog.get_by_role("button", name="Move to “other”").click()
    page.get_by_text("existing items were kept").wait_for()
    assert read(client, f"{folder}/other/alpha.txt") == b"old"
    assert "beta.txt" in client.names(f"{folder}/other")

    select_row(page, "alpha")
    choose(page, "Move to…")
    dialog.get_by_role("button", name="Move to “other”").click()
    dialog.get_by_role("radio", name="Replace").check()
    dialog.get_by_role("button", name="Move to “other”").click()
    page.get_by_role("row", name="alpha.txt").wait_for(state="detached")
    assert read(client, f"{folder}/other/alpha.txt") == b"alpha.txt"


@wide
def test_a_copy_that_becomes_a_task_says_so(
    page: Any, client: Client, folder: str, tmp_path: Path, shots: Path
) -> None:
    root = tmp_path / "elsewhere"
    root.mkdir()
    mount = f"/elsewhere {tmp_path.name}"
    addition = json.dumps({"root_folder_path": str(root)})
    client.ok("/api/admin/storage/create", mount_path=mount, driver="Local", addition=addition)
    open_folder(page, folder)
    select_several(page, "alpha.txt", "inner")
    choose(page, "Copy to…")
    go_to(page, mount.strip("/"))
    page.get_by_role("button", name="Copy to “elsewhere").click()
    page.get_by_text("in the background").wait_for()
    page.screenshot(path=shots / "copy-begun.png")
    page.get_by_role("button", name="Show tasks").click()
    panel = page.get_by_role("dialog", name="Tasks")
    panel.get_by_text("alpha.txt").first.wait_for()
    page.screenshot(path=shots / "tasks-opened.png")


def test_many_are_renamed_as_the_preview_shows(page: Any, client: Client, folder: str, shots: Path) -> None:
    width = page.viewport_size["width"]
    open_folder(page, folder)
    select_several(page, "alpha.txt", "beta.txt", "gamma.png")
    page.get_by_role("grid").focus()
    page.keyboard.press("F2")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Method").select_option("Number them")
    dialog.get_by_label("Name", exact=True).fill("Photo ##")
    dialog.get_by_text("3 of 3 names change").wait_for()
    dialog.get_by_role("listitem").filter(has_text="gamma.png").get_by_text("Photo 03.png").wait_for()
    page.screenshot(path=shots / f"number-{width}.png")
    assert find_violations(page, AXE) == []
    dialog.get_by_label("Method").select_option("Replace text")
    dialog.get_by_label("Find").fill("a")
    dialog.get_by_label("Replace with").fill("other/")
    dialog.get_by_text("3 of them are not possible").wait_for()
    page.screenshot(path=shots / f"faults-{width}.png")
    assert dialog.get_by_role("button", name="Rename").is_disabled()
    dialog.get_by_label("Replace with").fill("A")
    dialog.get_by_role("button", name="Rename").click()
    page.get_by_text("Renamed: 3").wait_for()
    assert client.names(folder) == ["AlphA.txt", "betA.txt", "gAmmA.png", "inner", "other"]


@wide
def test_a_whole_folder_is_renamed_by_a_pattern(page: Any, client: Client, folder: str) -> None:
    open_folder(page, folder)
    page.get_by_role("button", name="Folder actions").press("Enter")
    page.get_by_role("menuitem", name="Rename several").press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Method").select_option("Replace by a pattern (regular expression)")
    dialog.get_by_label("Pattern").fill("(")
    dialog.get_by_text("This is not a valid pattern").wait_for()
    dialog.get_by_label("Pattern").fill(r"^(?P<first>\w+)a\.txt$")
    dialog.get_by_label("Replace with").fill("${first}o $1.md")
    dialog.get_by_text("2 of 5 names change").wait_for()
    dialog.get_by_text("beto bet.md").wait_for()
    dialog.get_by_label("Replace with").press("Enter")
    page.get_by_role("row", name="beto bet.md").wait_for()
    assert client.names(folder) == ["alpho alph.md", "beto bet.md", "gamma.png", "inner", "other"]


@wide
def test_names_that_could_not_be_removed_are_named(page: Any, client: Client, folder: str, shots: Path) -> None:
    def refuse(route: Any) -> None:
        client.ok("/api/fs/remove", dir=folder, names=["alpha.txt"])
        route.fulfill(json={"code": 500, "message": "the disk is on fire", "data": None, "problem": "StorageProblem"})

    open_folder(page, folder)
    select_several(page, "alpha.txt", "beta.txt", "inner")
    page.route("**/api/fs/remove", refuse, times=1)
    page.get_by_role("grid").focus()
    page.keyboard.press("Delete")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Delete “inner”, “alpha.txt”, and “beta.txt”?").wait_for()
    dialog.get_by_role("button", name="Delete").click()
    dialog.get_by_text("Not deleted: “inner” and “beta.txt”.").wait_for()
    page.screenshot(path=shots / "not-removed.png")
    dialog.get_by_role("button", name="Delete").click()
    dialog.wait_for(state="detached")
    page.get_by_role("row", name="beta.txt").wait_for(state="detached")
    assert client.names(folder) == ["gamma.png", "other"]


@wide
def test_files_are_gathered_and_empty_folders_removed(page: Any, client: Client, folder: str) -> None:
    client.put(f"{folder}/inner/two.txt", b"the same name")
    open_folder(page, folder)
    more = page.get_by_role("button", name="Folder actions")
    dialog = page.get_by_role("dialog")
    more.press("Enter")
    page.get_by_role("menuitem", name="Gather files").press("Enter")
    dialog.get_by_role("button", name="Move the files").click()
    dialog.get_by_text("More than one file has the name “two.txt”").wait_for()
    dialog.get_by_role("radio", name="Skip").check()
    dialog.get_by_role("button", name="Move the files").click()
    page.get_by_role("row", name="one.txt").wait_for()

    more.press("Enter")
    page.get_by_role("menuitem", name="Delete empty folders").press("Enter")
    dialog.get_by_role("button", name="Delete").click()
    dialog.wait_for(state="detached")
    page.get_by_text("Empty folders deleted").wait_for()
    left = client.names(folder)
    assert {"alpha.txt", "one.txt", "two.txt"} <= set(left)
    assert len({"inner", "other"} & set(left)) == 1  # the one where the second file of the name stayed


@wide
def test_several_are_downloaded_as_a_zip(page: Any, folder: str, shots: Path) -> None:
    open_folder(page, folder)
    select_several(page, "alpha.txt", "inner")
    choose(page, "Download")
    page.screenshot(path=shots / "download.png")
    assert find_violations(page, AXE) == []
    with page.expect_download() as waiting:
        page.get_by_role("dialog").get_by_role("button", name="Download").click()
    assert waiting.value.suggested_filename == f"{folder.rpartition('/')[2]}.zip"
    with zipfile.ZipFile(waiting.value.path()) as packed:
        assert sorted(packed.namelist()) == ["alpha.txt", "inner/", "inner/deep/", "inner/deep/one.txt"]
        assert packed.read("inner/deep/one.txt") == b"inner/deep/one.txt"


@wide
def test_several_are_downloaded_one_by_one(page: Any, folder: str) -> None:
    got: list[Any] = []
    page.on("download", lambda download: got.append(download))
    open_folder(page, folder)
    select_several(page, "alpha.txt", "beta.txt")
    choose(page, "Download")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("radio", name="One file at a time").check()
    dialog.get_by_role("button", name="Download").click()
    dialog.wait_for(state="detached")
    assert [download.suggested_filename for download in got] == ["alpha.txt", "beta.txt"]


@wide
def test_links_are_copied(page: Any, client: Client, folder: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_folder(page, folder)
    select_several(page, "inner", "alpha.txt")
    page.get_by_role("grid").focus()
    page.keyboard.press("Shift+F10")
    page.get_by_role("menuitem", name="Copy links").click()
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_role("radio", name="Direct link").count() == 0
    dialog.get_by_role("button", name="Copy link").click()
    page.get_by_text("opens for people who sign in").wait_for()
    links = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert [link.partition("/@")[2] for link in links] == [
        f"{quote_path(folder)}/{name}" for name in ("inner", "alpha.txt")
    ]


@wide
def test_a_direct_link_to_a_file_says_that_anyone_can_use_it(page: Any, client: Client, folder: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_folder(page, folder)
    select_row(page, "alpha")
    choose(page, "Copy link")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("radio", name="Direct link").check()
    dialog.get_by_role("button", name="Copy link").click()
    page.get_by_text("Anyone with this link can download the file, with no expiry").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert client.http.get(link, headers={"authorization": ""}).content == b"alpha.txt"


def test_an_archive_is_unpacked(page: Any, client: Client, folder: str, shots: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("letters/a.txt", b"a letter")
    client.put(f"{folder}/mail.zip", packed.getvalue())
    open_folder(page, folder)
    select_row(page, "mail")
    choose(page, "Unpack…")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("option", name="inner").wait_for()
    page.screenshot(path=shots / f"unpack-{page.viewport_size['width']}.png")
    assert find_violations(page, AXE) == []
    dialog.get_by_role("button", name="Unpack to").click()
    page.get_by_text("in the background").wait_for()
    page.get_by_role("link", name="mail", exact=True).wait_for()  # the folder is listed again when a task has ended
    wait_for_names(client, f"{folder}/mail/letters", ["a.txt"])
    assert read(client, f"{folder}/mail/letters/a.txt") == b"a letter"


@wide
def test_addresses_are_fetched_by_the_service(page: Any, client: Client, folder: str, shots: Path) -> None:
    open_folder(page, folder)
    page.get_by_role("button", name="New", exact=True).press("Enter")
    page.get_by_role("menuitem", name="Download from a URL").press("Enter")
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_role("button", name="Download").is_disabled()
    dialog.get_by_label("URLs").fill("http://127.0.0.1:9/a.txt\n\nhttp://127.0.0.1:9/b.txt")
    dialog.get_by_label("Temporary file").select_option("Keep it")
    assert dialog.get_by_label("Tool").input_value() == "SimpleHttp"
    page.screenshot(path=shots / "offline.png")
    assert find_violations(page, AXE) == []
    with page.expect_request("**/api/fs/add_offline_download") as sent:
        dialog.get_by_role("button", name="Download").click()
    page.get_by_text("Downloading 2 to").wait_for()
    body = sent.value.post_data_json
    assert (body["path"], body["delete_policy"], len(body["urls"])) == (folder, "delete_never", 2)
    assert page.get_by_role("button", name="Show tasks").is_visible()


@wide
def test_only_what_one_may_do_is_offered(page: Any, client: Client, folder: str) -> None:
    name = "changes-reader"
    client.ok("/api/admin/user/create", username=name, password=PASSWORD, base_path="/", permission=0)
    page.goto(f"/@{folder}")
    fill_sign_in(page, name, PASSWORD)
    select_row(page, "alpha")
    page.keyboard.press("Shift+F10")
    page.get_by_role("menuitem", name="Open").wait_for()
    assert page.get_by_role("menuitem").all_inner_texts() == [
        "Open", "Download", "Copy link", "Versions…", "Add to favourites",
    ]  # fmt: skip
    page.keyboard.press("Escape")
    assert page.get_by_role("button", name="New", exact=True).count() == 0
    assert page.get_by_role("button", name="Folder actions").count() == 0

"""Links for people without an account: made by their owner, opened in a browser that knows nobody."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.page.conftest import AXE, VIEWS
from tests.e2e.page.steps import find_violations, select_row, sign_in
from tests.support.service import Client, Service, quote_path

wide = pytest.mark.parametrize("page", ["wide"], indirect=True)
PASSWORD = "open sesame"


@pytest.fixture
def folder(client: Client, request: pytest.FixtureRequest) -> str:
    """A new folder with files and a folder."""
    path = f"/files/{request.node.name}"
    for name in ("alpha.txt", "notes.md", "inner/deep.txt"):
        assert client.put(f"{path}/{name}", f"# {name}".encode())["code"] == 200
    return path


@pytest.fixture
def visitor(browser: Any, service: Service, page: Any, errors: list[str]) -> Iterator[Any]:
    """A page of a browser without a session, as wide as the other."""
    is_phone = page.viewport_size["width"] == VIEWS["phone"][0]
    context = browser.new_context(base_url=service.address, viewport=page.viewport_size, has_touch=is_phone)
    context.set_default_timeout(20_000)
    visitor = context.new_page()
    visitor.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    visitor.on("pageerror", lambda error: errors.append(str(error)))
    yield visitor
    context.close()


def share(client: Client, *paths: str, **fields: Any) -> str:
    """Make a link; its address in the page."""
    return f"/@s/{client.ok('/api/share/create', files=list(paths), **fields)['id']}"


def open_dialog(page: Any, folder: str, item: str) -> Any:
    """Open a dialog about the folder from its parent."""
    parent, _, name = folder.rpartition("/")
    sign_in(page, f"/@{quote_path(parent)}")
    select_row(page, name)
    page.keyboard.press("Shift+F10")
    page.get_by_role("menuitem", name=item).click()
    page.get_by_role("dialog").wait_for()
    return page.get_by_role("dialog")


def test_a_link_is_made_and_opened_without_an_account(page: Any, visitor: Any, folder: str, shots: Path) -> None:
    width = page.viewport_size["width"]
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    dialog = open_dialog(page, folder, "Share…")
    assert dialog.get_by_label("Expires").input_value() == "week"
    dialog.get_by_role("button", name="Generate").click()
    password = dialog.get_by_label("Password").input_value()
    assert len(password) == 12
    assert find_violations(page, AXE) == []
    dialog.get_by_role("button", name="Create link").click()
    dialog.get_by_text("Anyone with this link can view and download").wait_for()
    dialog.get_by_role("img", name="QR code").wait_for()
    page.screenshot(path=shots / f"share-made-{width}.png")
    assert find_violations(page, AXE) == []
    dialog.get_by_role("button", name="Copy").first.click()
    link = page.evaluate("navigator.clipboard.readText()")

    visitor.goto(link)
    visitor.get_by_label("Password of the link").fill("wrong")
    visitor.get_by_role("button", name="Open").click()
    visitor.get_by_text("The password is wrong").wait_for()
    assert find_violations(visitor, AXE) == []
    visitor.get_by_label("Password of the link").fill(password)
    visitor.get_by_role("button", name="Open").click()
    visitor.get_by_role("heading", name=folder.rpartition("/")[2]).wait_for()
    visitor.get_by_text("Shared by admin").wait_for()
    visitor.get_by_role("link", name="inner").wait_for()
    visitor.screenshot(path=shots / f"share-open-{width}.png")
    assert find_violations(visitor, AXE) == []
    visitor.get_by_role("link", name="notes.md").click()
    visitor.get_by_role("heading", name="notes.md", exact=True).wait_for()
    visitor.keyboard.press("Escape")
    visitor.get_by_role("link", name="inner").click()
    visitor.get_by_role("link", name="deep.txt").click()
    with visitor.expect_download() as waiting:
        visitor.get_by_role("link", name="Download", exact=True).click()
    assert Path(waiting.value.path()).read_bytes() == b"# inner/deep.txt"


@wide
def test_a_link_that_has_ended_says_so(page: Any, visitor: Any, client: Client, folder: str) -> None:
    past = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    for address in (share(client, folder, expires=past), share(client, folder, disabled=True), "/@s/nothing"):
        visitor.goto(address)
        visitor.get_by_role("heading", name="This link does not work").wait_for()
        assert find_violations(visitor, AXE) == []
        assert folder.rpartition("/")[2] not in visitor.content()


@wide
def test_one_file_is_shared_by_itself(page: Any, visitor: Any, client: Client, folder: str) -> None:
    visitor.goto(share(client, f"{folder}/notes.md"))
    visitor.get_by_role("heading", name="notes.md").first.wait_for()
    visitor.get_by_role("link", name="Download", exact=True).wait_for()
    assert visitor.get_by_role("link", name="Download all").count() == 0
    visitor.keyboard.press("Escape")  # there is nothing above
    assert visitor.get_by_role("link", name="Download", exact=True).is_visible()


def test_previews_of_other_sites_tell_nothing_of_a_link_with_a_password(client: Client, folder: str) -> None:
    name = folder.rpartition("/")[2]
    visitor = Client(client.address)
    text = visitor.http.get(share(client, folder)).text
    assert f'<meta property="og:title" content="{name}" />' in text
    assert 'property="og:description" content="admin shares' in text
    for address in (share(client, folder, pwd=PASSWORD), share(client, folder, disabled=True), "/@s/nothing"):
        text = visitor.http.get(address, headers={"accept": "*/*"}).text
        assert "<title>" in text and "og:" not in text and name not in text


def test_visitor_searches_in_a_share(page: Any, visitor: Any, client: Client, folder: str, shots: Path) -> None:
    while client.ok("/api/fs/search", parent=folder, keywords="deep", page=1, per_page=1)["total"] == 0:
        client.post("/api/admin/index/build")
        time.sleep(0.1)
    visitor.goto(share(client, folder))
    visitor.get_by_role("link", name="inner").click()
    visitor.get_by_role("button", name="Search").click()
    panel = visitor.get_by_role("dialog")
    panel.get_by_role("searchbox").fill("notes")
    panel.get_by_text("No results").wait_for()
    panel.get_by_role("combobox").first.select_option(label="Everywhere")
    panel.get_by_role("link", name="notes.md").wait_for()
    panel.get_by_role("searchbox").fill("deep")
    panel.get_by_text("/inner", exact=True).wait_for()
    visitor.screenshot(path=shots / f"share-search-{page.viewport_size['width']}.png")
    assert find_violations(visitor, AXE) == []
    panel.get_by_role("link", name="deep.txt").click()
    visitor.get_by_text("# inner/deep.txt").wait_for()


@wide
def test_selection_in_a_share_is_one_zip(page: Any, visitor: Any, client: Client, folder: str) -> None:
    visitor.goto(share(client, folder, pwd=PASSWORD))
    visitor.get_by_label("Password of the link").fill(PASSWORD)
    visitor.get_by_role("button", name="Open").click()
    visitor.get_by_role("link", name="alpha.txt").wait_for()
    select_row(visitor, "alpha.txt")
    visitor.keyboard.press("Shift+ArrowUp")
    visitor.keyboard.press("Shift+F10")
    visitor.get_by_role("menuitem", name="Download").click()
    with visitor.expect_download() as waiting:
        visitor.get_by_role("dialog").get_by_role("button", name="Download").click()
    with zipfile.ZipFile(waiting.value.path()) as archive:
        assert archive.namelist() == ["inner/", "inner/deep.txt", "alpha.txt"]


@wide
def test_zip_that_a_task_makes_is_fetched_when_it_is_ready(page: Any, client: Client, folder: str) -> None:
    """The cloud answers with a task when a ZIP file does not fit into an answer; here the test adds that task."""
    client.ok("/api/fs/archive/compress", src_dir=folder, names=["inner"], dst_dir=folder, name="made.zip")
    task = client.get("/api/task/compress/undone")["data"] or client.get("/api/task/compress/done")["data"]
    task_id, requests = task[0]["id"], list[str]()

    def add_task(route: Any) -> None:
        answer = route.fetch()
        body = answer.json()
        body["data"]["task"] = {"id": task_id}
        route.fulfill(response=answer, json=body)

    def note(route: Any) -> None:
        requests.append(route.request.url)
        route.continue_()

    page.route("**/api/fs/zip", add_task)
    page.route("**/api/task/compress/info*", note)
    sign_in(page, f"/@{quote_path(folder)}")
    select_row(page, "inner")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Shift+F10")
    page.get_by_role("menuitem", name="Download").click()
    with page.expect_download() as waiting:
        page.get_by_role("dialog").get_by_role("button", name="Download").click()
    assert requests and task_id in requests[0]
    with zipfile.ZipFile(waiting.value.path()) as archive:
        assert "inner/deep.txt" in archive.namelist()


@wide
def test_copy_link_asks_for_whom_it_is(page: Any, visitor: Any, client: Client, folder: str) -> None:
    dialog = open_dialog(page, folder, "Copy link")
    assert dialog.get_by_role("radio").count() == 2  # there is no direct link to a folder
    dialog.get_by_role("radio", name="Anyone with the link").check()
    assert dialog.get_by_label("Expires").input_value() == "week"
    assert find_violations(page, AXE) == []
    dialog.get_by_role("button", name="Create link").click()
    dialog.get_by_text("Anyone with this link can view and download").wait_for()
    visitor.goto(dialog.get_by_label("Link", exact=True).input_value())
    visitor.get_by_role("link", name="alpha.txt").wait_for()


def test_links_are_listed_changed_and_removed(page: Any, client: Client, folder: str, shots: Path) -> None:
    name, width = folder.rpartition("/")[2], page.viewport_size["width"]
    id = share(client, folder, remark="for Mia").rpartition("/")[2]
    sign_in(page)
    page.get_by_role("button", name="Account").click()
    page.get_by_role("menuitem", name="Shared links").click()
    item = page.get_by_role("listitem").filter(has=page.get_by_role("link", name=name, exact=True))
    item.get_by_text("for Mia").wait_for()
    item.get_by_text("Active").wait_for()
    page.screenshot(path=shots / f"links-{width}.png")
    assert find_violations(page, AXE) == []

    def choose(action: str) -> None:
        item.get_by_role("button", name="Actions for the link").click()
        page.get_by_role("menuitem", name=action).click()

    choose("Edit")
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_label("Expires").input_value() == "never"
    dialog.get_by_label("Expires").select_option("day")
    dialog.get_by_text("More options").click()
    dialog.get_by_label("Number of visits").fill("many")
    assert dialog.get_by_role("button", name="Save").is_disabled()
    dialog.get_by_label("Number of visits").fill("5")
    dialog.get_by_role("button", name="Save").click()
    item.get_by_text("0 of 5 visits").wait_for()
    row = client.get("/api/share/get", id=id)["data"]
    end = datetime.fromisoformat(row["expires"])
    assert timedelta(hours=23) < end - datetime.now(UTC) < timedelta(hours=25)
    assert (row["remark"], row["max_accessed"], row["files"]) == ("for Mia", 5, [folder])

    choose("Disable")
    item.get_by_text("Disabled").wait_for()
    choose("Enable")
    item.get_by_text("Active").wait_for()
    choose("Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    item.wait_for(state="detached")
    assert client.get("/api/share/get", id=id)["code"] == 404


def test_files_are_sent_to_a_drop_link(
    visitor: Any, client: Client, folder: str, shots: Path, errors: list[str]
) -> None:
    address = share(client, folder, mode="drop", pwd=PASSWORD, max_file_size=2**20, extensions=["txt"])
    visitor.goto(address)
    visitor.get_by_label("Password of the link").fill(PASSWORD)
    visitor.get_by_role("button", name="Open").click()
    visitor.get_by_text("The files you add here go to admin").wait_for()
    visitor.get_by_text("only txt").wait_for()
    assert "alpha.txt" not in visitor.content()
    assert find_violations(visitor, AXE) == []
    sent = [
        {"name": "alpha.txt", "mimeType": "text/plain", "buffer": b"mine"},
        {"name": "program.exe", "mimeType": "", "buffer": b"x"},
    ]
    with visitor.expect_file_chooser() as waiting:
        visitor.get_by_role("button", name="Choose files").click()
    waiting.value.set_files(sent)
    receipts = visitor.get_by_role("region", name="What you sent")
    receipts.get_by_text("alpha (2).txt").or_(receipts.get_by_text("alpha")).first.wait_for()
    receipts.get_by_text(sha256(b"mine").hexdigest()).wait_for()
    visitor.get_by_role("region", name="Uploads").get_by_text("1 failed").wait_for()
    visitor.screenshot(path=shots / f"drop-{visitor.viewport_size['width']}.png")
    assert find_violations(visitor, AXE) == []
    with visitor.expect_download() as saved:
        receipts.get_by_role("button", name="Save the receipt").click()
    assert sha256(b"mine").hexdigest() in Path(saved.value.path()).read_text()
    visitor.reload()
    visitor.get_by_label("Password of the link").fill(PASSWORD)
    visitor.get_by_role("button", name="Open").click()
    receipts.get_by_text("alpha").first.wait_for()
    assert client.bytes(f"{folder}/alpha.txt").content == b"# alpha.txt"
    assert "program.exe" not in client.names(folder)
    errors[:] = [error for error in errors if "413" not in error]  # the browser logs the file that is refused


@wide
def test_all_of_a_share_is_downloaded_as_a_zip(visitor: Any, client: Client, folder: str) -> None:
    visitor.goto(share(client, folder, pwd=PASSWORD))
    visitor.get_by_label("Password of the link").fill(PASSWORD)
    visitor.get_by_role("button", name="Open").click()
    with visitor.expect_download() as waiting:
        visitor.get_by_role("link", name="Download all").click()
    with zipfile.ZipFile(waiting.value.path()) as packed:
        files = {name for name in packed.namelist() if not name.endswith("/")}
        assert files == {"alpha.txt", "notes.md", "inner/deep.txt"}


@wide
def test_an_empty_share_offers_no_download(visitor: Any, client: Client, folder: str) -> None:
    client.ok("/api/fs/mkdir", path=f"{folder}/nothing")
    visitor.goto(share(client, f"{folder}/nothing"))
    visitor.get_by_text("This folder is empty").wait_for()
    assert visitor.get_by_role("link", name="Download all").count() == 0


@wide
def test_a_large_file_is_sent_to_a_share_that_shows_what_is_there(visitor: Any, client: Client, folder: str) -> None:
    visitor.goto(share(client, folder, mode="both"))
    visitor.get_by_role("link", name="alpha.txt").wait_for()
    content = bytes(range(256)) * 2**16  # 16 MiB, more than a part
    with visitor.expect_file_chooser() as waiting:
        visitor.get_by_role("button", name="Upload files").click()
    waiting.value.set_files([{"name": "large.bin", "mimeType": "", "buffer": content}])
    visitor.get_by_role("link", name="large.bin").wait_for()
    assert client.bytes(f"{folder}/large.bin").content == content

"""Files of the person's device go into the tree: by button, by drag, with all that may come in between."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import fill_sign_in, find_violations, sign_in, wait_until
from tests.support.service import Client, Service

WIDE = pytest.mark.parametrize("page", ["wide"], indirect=True)
PASSWORD = "a long password"


@pytest.fixture
def folder(service: Service, request: pytest.FixtureRequest) -> str:
    """A new empty folder."""
    path = f"/files/{request.node.name}"
    service.client().ok("/api/fs/mkdir", path=path)
    return path


@pytest.fixture
def held(page: Any) -> list[Any]:
    """Uploads wait here until a test lets them go."""
    routes: list[Any] = []
    page.route("**/api/fs/put", lambda route: routes.append(route))  # a bound built-in is not taken
    return routes


def make_files(folder: Path, *names: str, text: str = "new") -> list[Path]:
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return paths


def drop(page: Any, *paths: Path) -> None:
    """Drag files and folders from outside over the folder, and let go."""
    box = page.get_by_role("grid").bounding_box()
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + 60}
    browser = page.context.new_cdp_session(page)
    browser.send("Input.dispatchDragEvent", {"type": "dragEnter", "data": data, **place})
    browser.send("Input.dispatchDragEvent", {"type": "dragOver", "data": data, **place})
    page.locator("[data-drop]").wait_for()
    browser.send("Input.dispatchDragEvent", {"type": "drop", "data": data, **place})


def choose(page: Any, item: str, *paths: Path) -> None:
    """Give files, or a folder, by the menu."""
    page.get_by_role("button", name="New", exact=True).click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("menuitem", name=item).click()
    chooser.value.set_files([str(path) for path in paths])


def show_list(page: Any) -> None:
    """On a phone the list is shown when one wants to see it."""
    button = page.get_by_role("button", name="list of uploads")
    button.wait_for()
    if button.get_attribute("aria-expanded") == "false":
        button.click()


def read(client: Client, path: str) -> str:
    return client.bytes(path).text


def test_a_folder_is_dropped_with_all_that_is_in_it(
    page: Any, service: Service, folder: str, tmp_path: Path, shots: Path
) -> None:
    tree = tmp_path / "tree"
    make_files(tree, "top.txt", "one/two/deep.txt", "évènement 100% #1?.txt")
    make_files(tree / "many", *(f"{number}.txt" for number in range(120)))
    (tree / "hollow" / "below").mkdir(parents=True)
    single = make_files(tmp_path, "single.txt")[0]
    sign_in(page, f"/@{folder}")
    drop(page, tree, single)
    page.get_by_text("125 of 125 uploaded").wait_for()
    page.get_by_role("row", name="single.txt").wait_for()  # the folder in view is listed again by itself
    show_list(page)
    page.screenshot(path=shots / f"uploaded-{page.viewport_size['width']}.png")
    assert find_violations(page, AXE) == []
    client = service.client()
    assert client.names(folder) == ["single.txt", "tree"]
    assert client.names(f"{folder}/tree") == ["hollow", "many", "one", "top.txt", "évènement 100% #1?.txt"]
    assert client.names(f"{folder}/tree/hollow") == ["below"]
    assert len(client.names(f"{folder}/tree/many")) == 120
    assert read(client, f"{folder}/tree/one/two/deep.txt") == "new"
    page.get_by_role("button", name="Clear the list").click()
    page.get_by_text("of 125 uploaded").wait_for(state="hidden")


@WIDE
def test_files_and_a_folder_are_chosen_by_button(page: Any, service: Service, folder: str, tmp_path: Path) -> None:
    first, two = make_files(tmp_path, "one.txt", "two.txt")
    make_files(tmp_path / "chosen", "inside/three.txt")
    sign_in(page, f"/@{folder}")
    choose(page, "Upload files", first, two)
    page.get_by_text("2 of 2 uploaded").wait_for()
    choose(page, "Upload a folder", tmp_path / "chosen")
    page.get_by_text("3 of 3 uploaded").wait_for()
    page.get_by_role("row", name="chosen").wait_for()
    client = service.client()
    assert client.names(folder) == ["chosen", "one.txt", "two.txt"]
    assert client.names(f"{folder}/chosen/inside") == ["three.txt"]
    entry = client.ok("/api/fs/get", path=f"{folder}/one.txt")
    assert abs(first.stat().st_mtime - _parse(entry["modified"])) < 1.5  # it keeps its time


def _parse(moment: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(moment).timestamp()


def test_a_name_that_is_taken_is_asked_about_once_for_all(
    page: Any, service: Service, folder: str, tmp_path: Path, shots: Path
) -> None:
    client = service.client()
    names = [f"{number}.txt" for number in range(6)]
    for name in names[:5]:
        assert client.put(f"{folder}/{name}", b"old")["code"] == 200
    paths = make_files(tmp_path, *names)
    sign_in(page, f"/@{folder}")
    choose(page, "Upload files", *paths)
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("already exists").wait_for()
    page.screenshot(path=shots / f"taken-{page.viewport_size['width']}.png")
    assert find_violations(page, AXE) == []
    first = dialog.get_by_role("heading").inner_text().strip("“”").split("”")[0]
    dialog.get_by_role("button", name="Keep both").click()
    dialog.get_by_role("heading").filter(has_not_text=f"“{first}”").wait_for()
    second = dialog.get_by_role("heading").inner_text().strip("“”").split("”")[0]
    dialog.get_by_role("button", name="Replace").click()
    dialog.get_by_role("heading").filter(has_not_text=f"“{second}”").wait_for()
    dialog.get_by_role("checkbox").check()
    dialog.get_by_role("button", name="Skip").click()
    dialog.wait_for(state="hidden")
    page.get_by_text("3 of 6 uploaded").wait_for()
    contents = {name: read(client, f"{folder}/{name}") for name in client.names(folder)}
    expected = {name: "old" for name in names[:5]} | {second: "new", "5.txt": "new"}
    assert contents == expected | {first.replace(".txt", " (2).txt"): "new"}


@WIDE
def test_the_queue_is_paused_continued_and_given_up(
    page: Any, service: Service, folder: str, tmp_path: Path, held: list[Any], shots: Path
) -> None:
    sign_in(page, f"/@{folder}")
    choose(page, "Upload files", *make_files(tmp_path, *(f"{number}.txt" for number in range(8))))
    row = page.get_by_role("listitem")
    row.filter(has_text="Waiting").first.wait_for()
    wait_until(lambda: row.filter(has_text="0 B / 3 B").count() == 6 == len(held), page)  # at most six concurrently
    row.filter(has_text="7.txt").get_by_role("button", name="Cancel").click()
    row.filter(has_text="7.txt").get_by_text("Cancelled").wait_for()
    page.get_by_role("button", name="Pause").click()
    page.get_by_text("Small files start again.").wait_for()
    row.filter(has_text="0.txt").get_by_text("Waiting").wait_for()
    page.screenshot(path=shots / "paused.png")
    assert find_violations(page, AXE) == []
    page.unroute("**/api/fs/put")
    page.get_by_role("button", name="Continue").click()
    page.get_by_text("7 of 8 uploaded").wait_for()
    row.filter(has_text="7.txt").get_by_role("button", name="Upload 7.txt again").click()
    page.get_by_text("8 of 8 uploaded").wait_for()
    assert len(service.client().names(folder)) == 8


@WIDE
@pytest.mark.long
def test_a_large_file_goes_on_after_a_reload_with_what_is_missing(
    page: Any, service: Service, folder: str, tmp_path: Path, errors: list[str]
) -> None:
    admin = service.client()
    rows = [{"key": "multipart_chunk_size", "value": "1"}]
    assert admin.http.post("/api/admin/setting/save", json=rows).json()["code"] == 200
    large, content = tmp_path / "large.bin", os.urandom((5 << 20) + 7)
    large.write_bytes(content)
    sent: list[str] = []

    def pass_some(route: Any) -> None:
        """Two chunks pass, the others wait."""
        sent.append(route.request.headers["x-chunk-index"])
        if len(sent) <= 2:
            route.continue_()

    page.on("dialog", lambda dialog: dialog.accept())
    page.route("**/api/fs/multipart/chunk", pass_some)
    sign_in(page, f"/@{folder}")
    choose(page, "Upload files", large)
    query = {"path": f"{folder}/large.bin", "size": len(content)}
    wait_until(lambda: len(sent) > 2 and _count_bytes(admin, query) == 2 << 20, page)
    page.reload()
    page.unroute("**/api/fs/multipart/chunk")
    again: list[str] = []
    page.on("request", lambda request: again.append(request.headers.get("x-chunk-index", "")))
    page.get_by_role("grid").wait_for()
    choose(page, "Upload files", large)
    wait_until(lambda: admin.names(folder) == ["large.bin"], page)
    page.evaluate("null")  # the events of all requests have come
    assert sorted(filter(None, again)) == sorted({*"012345"} - {*sent[:2]})
    assert admin.bytes(f"{folder}/large.bin").content == content
    errors.clear()  # of what was broken off


def _count_bytes(client: Client, query: dict[str, Any]) -> int:
    """Bytes that the service has of an upload in parts."""
    data = client.get("/api/fs/multipart/status", **query)["data"]
    return data["received_bytes"] if data else 0


@WIDE
def test_leaving_is_warned_of_and_everything_can_be_given_up(
    page: Any, folder: str, tmp_path: Path, held: list[Any]
) -> None:
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.type), dialog.dismiss()))
    sign_in(page, f"/@{folder}")
    choose(page, "Upload files", *make_files(tmp_path, "one.txt", "two.txt"))
    page.get_by_text("0 of 2 uploaded").wait_for()
    page.close(run_before_unload=True)
    page.get_by_role("button", name="Cancel all").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel uploads").click()
    page.get_by_text("of 2 uploaded").wait_for(state="hidden")
    assert dialogs == ["beforeunload"]


@WIDE
def test_what_is_refused_is_named_and_tried_again(
    page: Any, service: Service, folder: str, tmp_path: Path, shots: Path
) -> None:
    admin = service.client()
    admin.ok("/api/admin/user/create", username=folder[7:37], password=PASSWORD, base_path=folder, permission=8)
    good, slash, taken = make_files(tmp_path, "good.txt", "back\\slash.txt", "folder", text="new")
    admin.ok("/api/fs/mkdir", path=f"{folder}/folder")
    page.goto("/")
    fill_sign_in(page, folder[7:37], PASSWORD)
    page.get_by_role("grid").wait_for()
    choose(page, "Upload files", good, slash, taken)
    page.get_by_role("button", name="Replace").click()
    page.get_by_text("1 of 3 uploaded").wait_for()
    page.get_by_text("2 failed").wait_for()
    row = page.get_by_role("listitem")
    row.filter(has_text="slash.txt").get_by_text("contains / or").wait_for()
    row.filter(has_text="folder").get_by_text("This name is already taken.").wait_for()
    page.screenshot(path=shots / "refused.png")
    assert find_violations(page, AXE) == []
    admin.ok("/api/fs/remove", dir=folder, names=["folder"])
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("2 of 3 uploaded").wait_for()
    assert admin.names(folder) == ["folder", "good.txt"]


@WIDE
def test_who_is_signed_out_signs_in_and_the_queue_goes_on(
    page: Any, service: Service, folder: str, tmp_path: Path, held: list[Any], errors: list[str]
) -> None:
    admin, name = service.client(), folder[7:37]
    user = {"username": name, "base_path": folder, "permission": 8, "role": 0}
    admin.ok("/api/admin/user/create", password=PASSWORD, **user)
    page.goto("/")
    fill_sign_in(page, name, PASSWORD)
    page.get_by_role("grid").wait_for()
    choose(page, "Upload files", *make_files(tmp_path, *(f"{number}.txt" for number in range(5))))
    page.get_by_text("0 of 5 uploaded").wait_for()
    users = admin.get("/api/admin/user/list")["data"]["content"]
    id = next(user["id"] for user in users if user["username"] == name)
    admin.ok("/api/admin/user/update", id=id, password=f"{PASSWORD} 2", **user)
    wait_until(lambda: len(held) == 5, page)
    for route in held:
        route.continue_()
    page.get_by_text("Sign in again to continue").wait_for()
    page.unroute("**/api/fs/put")
    assert admin.names(folder) == []
    fill_sign_in(page, name, f"{PASSWORD} 2")
    page.get_by_text("5 of 5 uploaded").wait_for()
    assert len(admin.names(folder)) == 5


@WIDE
def test_without_a_network_the_queue_waits(
    page: Any, service: Service, folder: str, tmp_path: Path, errors: list[str]
) -> None:
    sign_in(page, f"/@{folder}")
    first, *others = make_files(tmp_path, "one.txt", "two.txt", "three.txt", "four.txt")
    choose(page, "Upload files", first)
    page.get_by_text("1 of 1 uploaded").wait_for()
    page.context.set_offline(True)
    choose(page, "Upload files", *others)
    page.get_by_text("Paused: the service cannot be reached.").wait_for()
    page.context.set_offline(False)  # the page gets the answer, and continues
    page.get_by_text("4 of 4 uploaded").wait_for()
    assert len(service.client().names(folder)) == 4
    errors.clear()  # the browser itself logs a request that fails


@WIDE
@pytest.mark.parametrize("count", [1, 40], ids=["one file", "a batch"])
def test_an_upload_without_progress_fails_and_is_tried_again(
    page: Any, service: Service, folder: str, tmp_path: Path, count: int
) -> None:
    page.route("**/api/fs/put*", lambda route: None)  # as on a connection that is dead without a sign
    page.clock.install()
    sign_in(page, f"/@{folder}")
    with page.expect_request("**/api/fs/put*"):
        choose(page, "Upload files", *make_files(tmp_path, *(f"{number}.txt" for number in range(count))))
    page.clock.fast_forward("05:01")
    page.get_by_text(f"{count} failed").wait_for()
    page.get_by_text("There was no progress for 5 minutes.").first.wait_for()
    page.unroute("**/api/fs/put*")
    page.get_by_role("button", name="Try again").click()
    page.get_by_text(f"{count} of {count} uploaded").wait_for()
    assert len(service.client().names(folder)) == count


@WIDE
def test_an_upload_whose_parts_make_no_progress_fails_and_goes_on(
    page: Any, service: Service, folder: str, tmp_path: Path
) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(bytes(range(256)) * (50 << 12))  # five parts
    page.route("**/api/fs/multipart/chunk*", lambda route: None)
    page.clock.install()
    sign_in(page, f"/@{folder}")
    with page.expect_request("**/api/fs/multipart/chunk*"):
        choose(page, "Upload files", large)
    page.clock.fast_forward("05:01")
    page.get_by_text("There was no progress for 5 minutes.").first.wait_for()
    page.unroute("**/api/fs/multipart/chunk*")
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("1 of 1 uploaded").wait_for()
    assert service.client().bytes(f"{folder}/large.bin").content == large.read_bytes()


@WIDE
def test_many_small_files_go_in_few_requests(page: Any, service: Service, folder: str, tmp_path: Path) -> None:
    client, requests = service.client(), list[str]()
    assert client.put(f"{folder}/7.txt", b"old")["code"] == 200
    page.on("request", lambda request: requests.append(request.url) if "/api/fs/put" in request.url else None)
    sign_in(page, f"/@{folder}")
    choose(page, "Upload files", *make_files(tmp_path, *(f"{number}.txt" for number in range(120))))
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("already exists").wait_for()
    page.get_by_text("119 of 120 uploaded").wait_for()
    dialog.get_by_role("button", name="Replace", exact=True).click()
    page.get_by_text("120 of 120 uploaded").wait_for()
    assert len(client.names(folder)) == 120
    assert {read(client, f"{folder}/{number}.txt") for number in (0, 7, 119)} == {"new"}
    assert len(requests) <= 5, requests

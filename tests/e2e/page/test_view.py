"""Files that are viewed, and texts that are edited."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.page.conftest import AXE
from tests.e2e.page.samples import FILM, make_pdf, make_picture, make_sound, make_zip
from tests.e2e.page.steps import fill_sign_in, find_violations
from tests.support.service import Client, Service

WIDE = pytest.mark.parametrize("page", ["wide"], indirect=True)
NOTES = """# Notes

See [the code](code.py), [below](#far-below) and <https://example.org/>.

| a | b |
|---|---|
| 1 | 2 |

- [x] done
- [ ] open

![own](red.png) ![remote](http://127.0.0.1:9/pixel.png)

## Far below
"""
PAGE = "<style>h1 { color: green }</style><h1 style='margin: 5px'>A page</h1><script>document.title = 1</script>"
DRAWING = '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60"><rect width="90" height="60"/></svg>'
SUBTITLES = "1\r\n00:00:00,000 --> 00:00:02,500\r\nGood <i>morning</i>\r\n"


@pytest.fixture(scope="module")
def files(service: Service) -> Client:
    """Files of every kind in `/files/view`."""
    admin = service.client()
    contents = {
        "code.py": b'def greet():\n    """Say it."""\n    return "hello", 1\n',
        "chinese.txt": "中文文本，第二行".encode("gbk"),
        "wide.txt": "ünïcode".encode("utf-16"),
        "long.txt": b"0123456789abcde\n" * 200_000,
        "data.bin": b"\0\1\2" * 100,
        "notes.md": NOTES.encode(),
        "blue.png": make_picture(300, 200, (30, 60, 200)),
        "green.png": make_picture(2000, 1500, (30, 160, 60)),
        "red.png": make_picture(120, 80, (200, 40, 40)),
        "film.webm": FILM,
        "film.en.srt": SUBTITLES.encode(),
        "sound.wav": make_sound(),
        "paper.pdf": make_pdf("A page of paper"),
        "box.zip": make_zip({"readme.txt": b"top", "inner/deep/letter.txt": b"letter"}),
        "safe.zip": make_zip({"gold.txt": b"gold"}, "sesame"),
        "broken.zip": b"PK no archive",
        "page.html": PAGE.encode(),
        "drawing.svg": DRAWING.encode(),
    }
    for name, content in contents.items():
        assert admin.put(f"/files/view/{name}", content)["code"] == 200
    return admin


def is_pdf_viewer(frame: Any) -> bool:
    return str(frame.url).startswith("chrome-extension:")


def open_file(page: Any, name: str) -> None:
    """Sign in if need be, and open a file of the folder."""
    page.goto(f"/@/files/view/{name}")
    fill_sign_in(page)
    page.get_by_role("link", name="Download", exact=True).wait_for()


def shoot(page: Any, shots: Path, name: str) -> None:
    page.screenshot(path=shots / f"view-{name}-{page.viewport_size['width']}.png")


@pytest.mark.usefixtures("files")
def test_texts_are_shown_in_colours_and_in_any_encoding(page: Any, shots: Path) -> None:
    open_file(page, "code.py")
    page.locator(".hljs-keyword", has_text="def").wait_for()
    shoot(page, shots, "code")
    assert find_violations(page, AXE) == []
    for name, words in (("chinese.txt", "中文文本"), ("wide.txt", "ünïcode"), ("long.txt", "Only the first 2 MiB")):
        go_beside(page, name)
        page.get_by_text(words).first.wait_for()
    go_beside(page, "data.bin")
    page.get_by_text("no preview for this kind").wait_for()
    shoot(page, shots, "unknown")
    assert find_violations(page, AXE) == []
    page.get_by_role("button", name="Show as text").click()
    page.get_by_text("is not a text").wait_for()
    assert page.get_by_role("link", name="Download instead").get_attribute("href")


def wait_for_property(element: Any, name: str, value: object) -> None:
    from playwright.sync_api import expect  # only now: where it is not installed, the tests are skipped

    expect(element).to_have_js_property(name, value, timeout=20_000)


def go_beside(page: Any, name: str) -> None:
    """From a file to one of the same folder."""
    page.keyboard.press("Escape")
    page.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("link", name="Download", exact=True).wait_for()


@pytest.mark.usefixtures("files")
def test_markdown_is_laid_out_and_remote_pictures_wait(page: Any, shots: Path, errors: list[str]) -> None:
    requested_urls: list[str] = []
    page.on("request", lambda request: requested_urls.append(request.url))
    open_file(page, "notes.md")
    wait_for_property(page.locator("img[alt=own]"), "naturalWidth", 120)
    page.get_by_text("127.0.0.1:9").wait_for()
    shoot(page, shots, "markdown")
    assert find_violations(page, AXE) == []
    assert not any(":9/" in url for url in requested_urls)
    boxes = page.get_by_role("checkbox")
    tasks = {box.get_attribute("aria-label"): box.is_checked() for box in boxes.all()}
    assert tasks == {"done": True, "open": False}
    page.get_by_role("link", name="below").click()
    assert page.url.endswith("/notes.md")
    page.get_by_role("button", name="Show the pictures").click()
    wait_for_property(page.locator("img[alt=remote]"), "src", "http://127.0.0.1:9/pixel.png")
    page.get_by_role("button", name="Source").click()
    page.get_by_text("## Far below").wait_for()
    page.get_by_role("button", name="Source").click()
    page.get_by_role("link", name="the code").click()
    page.wait_for_url("**/@/files/view/code.py")
    assert any(":9/" in url for url in requested_urls)
    errors.clear()  # there is nothing at that address


@pytest.mark.usefixtures("files")
def test_pictures_are_leafed_through_and_looked_at_closely(page: Any, shots: Path) -> None:
    open_file(page, "blue.png")
    page.get_by_role("button", name="Next picture").click()
    page.wait_for_url("**/drawing.svg")
    wait_for_property(page.locator("main img"), "naturalWidth", 90)
    page.get_by_role("button", name="Next picture").click()
    page.wait_for_url("**/green.png")
    wait_for_property(page.locator("main img"), "naturalWidth", 2000)
    shoot(page, shots, "picture")
    assert find_violations(page, AXE) == []
    assert page.locator("main img").evaluate("image => image.clientWidth") <= page.viewport_size["width"]
    page.get_by_role("button", name="Full size").click()
    wait_for_property(page.locator("main img"), "clientWidth", 2000)
    page.keyboard.press("-")
    page.get_by_role("button", name="Fit (now 67 %)").click()
    page.locator("button[aria-label='Next picture']:not(:disabled)").wait_for()
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**/red.png")
    page.locator("button[aria-label='Next picture']:disabled").wait_for()
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**/green.png")
    wait_for_property(page.locator("main img"), "naturalWidth", 2000)
    page.keyboard.press("Escape")
    page.get_by_role("grid").wait_for()


@WIDE
@pytest.mark.usefixtures("files")
def test_film_has_the_subtitles_beside_it_and_sound_plays(page: Any, shots: Path) -> None:
    open_file(page, "film.webm")
    wait_for_property(page.locator("video"), "videoWidth", 16)
    wait_for_property(page.locator("track"), "readyState", 2)
    texts = page.locator("track").evaluate("track => [track.label, ...[...track.track.cues].map((cue) => cue.text)]")
    assert texts == ["en", "Good <i>morning</i>"]
    shoot(page, shots, "film")
    assert find_violations(page, AXE) == []
    page.get_by_role("link", name="film.en.srt").click()
    page.get_by_text("morning").wait_for()
    go_beside(page, "sound.wav")
    page.locator("audio").evaluate("audio => audio.play()")
    assert find_violations(page, AXE) == []


@WIDE
@pytest.mark.usefixtures("files")
def test_pdf_is_shown_by_the_browser(page: Any, shots: Path) -> None:
    open_file(page, "paper.pdf")
    page.wait_for_function("navigator.serviceWorker.controller")
    with page.expect_event("framenavigated", is_pdf_viewer):
        page.reload()
    assert page.locator("iframe[src^='/@pdf/'][src$='/paper.pdf']").is_visible()
    shoot(page, shots, "pdf")


@WIDE
@pytest.mark.usefixtures("files")
def test_pdf_is_shown_without_a_service_worker(page: Any) -> None:
    page.add_init_script("delete Navigator.prototype.serviceWorker")  # as over plain HTTP
    with page.expect_event("framenavigated", is_pdf_viewer):
        open_file(page, "paper.pdf")
    assert page.locator("iframe[src^='blob:']").is_visible()


@pytest.mark.usefixtures("files")
def test_archives_are_folders(page: Any, shots: Path, service: Service) -> None:
    open_file(page, "box.zip")
    page.get_by_role("button", name="inner").click()
    page.get_by_role("button", name="deep").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download letter.txt").click()
    assert Path(download.value.path()).read_bytes() == b"letter"
    shoot(page, shots, "archive")
    assert find_violations(page, AXE) == []
    page.get_by_role("button", name="Archive", exact=True).click()
    page.get_by_text("readme.txt").wait_for()
    page.get_by_role("button", name="Unpack").click()
    page.get_by_text("Unpacking the archive").wait_for()


@WIDE
@pytest.mark.usefixtures("files")
def test_an_archive_may_ask_for_its_password(page: Any, shots: Path) -> None:
    open_file(page, "safe.zip")
    page.get_by_label("Archive password").fill("simsalabim")
    page.get_by_role("button", name="Open the archive").click()
    page.get_by_text("password is wrong").wait_for()
    shoot(page, shots, "archive-locked")
    assert find_violations(page, AXE) == []
    page.get_by_label("Archive password").fill("sesame")
    page.get_by_role("button", name="Open the archive").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download gold.txt").click()
    assert Path(download.value.path()).read_bytes() == b"gold"
    assert "sesame" not in download.value.url + page.url
    go_beside(page, "broken.zip")
    page.get_by_text("cannot be read").wait_for()


def test_texts_are_edited(page: Any, shots: Path, files: Client) -> None:
    name = f"edited{page.viewport_size['width']}.txt"
    path = f"/files/view/{name}"
    files.put(path, b"first\r\nsecond\r\n")
    open_file(page, name)
    page.get_by_role("button", name="Edit").click()
    field = page.get_by_role("textbox", name=name)
    field.fill("first\nthird\n")
    page.keyboard.press("Control+s")
    page.get_by_text("Saved", exact=True).wait_for()
    assert files.bytes(path).content == b"first\r\nthird\r\n"

    files.put(path, b"somebody else's")
    field.fill("mine")
    shoot(page, shots, "edit")
    assert find_violations(page, AXE) == []
    page.get_by_role("button", name="Save", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("changed or removed").wait_for()
    shoot(page, shots, "changed")
    dialog.get_by_role("button", name="Cancel").click()
    assert files.bytes(path).content == b"somebody else's"
    page.get_by_role("button", name="Save", exact=True).click()
    dialog.get_by_role("button", name="Overwrite").click()
    dialog.wait_for(state="detached")
    assert files.bytes(path).content == b"mine"

    field.fill("a draft")
    page.get_by_label("Path").get_by_role("link", name="view").click()
    page.get_by_text("kept until this window is closed").wait_for()
    page.get_by_role("link", name=name).click()
    field.get_by_text("a draft").wait_for()
    page.get_by_text("your earlier changes").wait_for()
    page.get_by_role("main").get_by_role("button", name="Close").click()
    dialog.get_by_role("button", name="Discard").click()
    page.get_by_text("mine").wait_for()


@pytest.mark.usefixtures("files")
def test_a_page_of_a_user_is_shown_with_its_looks_and_without_its_scripts(page: Any, shots: Path) -> None:
    open_file(page, "page.html")
    heading = page.frame_locator("iframe").frame_locator("iframe").get_by_role("heading", name="A page")
    heading.wait_for()
    assert heading.evaluate("element => getComputedStyle(element).color") == "rgb(0, 128, 0)"
    assert heading.evaluate("element => getComputedStyle(element).marginTop") == "5px"
    assert heading.evaluate("self.origin") == "null"
    page.get_by_text("Shown without scripts").wait_for()
    shoot(page, shots, "page")
    assert find_violations(page, AXE) == []
    page.get_by_role("button", name="Source").click()
    page.locator(".hljs-name", has_text="script").first.wait_for()


@WIDE
@pytest.mark.usefixtures("files")
def test_what_cannot_be_had_is_said_and_tried_again(page: Any, errors: list[str]) -> None:
    page.route(re.compile(r"/p/files/view/code\.py"), lambda route: route.abort())
    open_file(page, "code.py")
    page.get_by_text("cannot be reached").wait_for()
    page.unroute(re.compile(r"/p/files/view/code\.py"))
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("hello").wait_for()
    errors.clear()  # the browser itself logs a request that fails

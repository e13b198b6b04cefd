"""Previews by the readers of formats, and the way from one file to the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.page.conftest import AXE
from tests.e2e.page.documents import (
    HEIC,
    PARQUET,
    find_font,
    make_docx,
    make_epub,
    make_odt,
    make_pptx,
    make_raw,
    make_song,
    make_sqlite,
    make_xlsx,
)
from tests.e2e.page.samples import make_picture, make_sound
from tests.e2e.page.steps import fill_sign_in, find_violations
from tests.support.service import Client, Service

WIDE = pytest.mark.parametrize("page", ["wide"], indirect=True)
FOLDER = "/files/previews"


@pytest.fixture(scope="module")
def files(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Client:
    """Documents in FOLDER."""
    admin = service.client()
    rows = "".join(f"Town {n},{n}\n" for n in range(1, 1201))
    contents = {
        "a letter.docx": make_docx("Dear reader"),
        "bill.xlsx": make_xlsx([["Item", "Price"], ["Lamp", "12"]]),
        "book.epub": make_epub("Chapter one"),
        "broken.docx": b"PK no document",
        "broken.heic": HEIC[:100],
        "camera.nef": make_raw(),
        "cities.parquet": PARQUET,
        "code.py": b"def greet():\n    return 1\n",
        "letters.ttf": find_font(),
        "open.odt": make_odt("Open paragraph"),
        "photo.heic": HEIC,
        "shop.sqlite": make_sqlite(tmp_path_factory.mktemp("sqlite")),
        "song 1.wav": make_song("Rain", "The Trees", make_picture(20, 20, (200, 40, 40))),
        "song 2.wav": make_sound(),
        "talk.pptx": make_pptx("Plans"),
        "towns.csv": f"Town,People\n{rows}".encode(),
    }
    for name, content in contents.items():
        assert admin.put(f"{FOLDER}/{name}", content)["code"] == 200
    return admin


def open_file(page: Any, name: str) -> None:
    """Sign in if need be, and open a file of FOLDER."""
    page.goto(f"/@{FOLDER}/{name}")
    download = page.get_by_role("link", name="Download", exact=True)
    page.get_by_label("User name").or_(download).first.wait_for()
    if page.get_by_label("User name").is_visible():
        fill_sign_in(page)
    download.wait_for()


def find_text(page: Any, text: str) -> Any:
    """Find a text in the frame of a document, which has a frame in it."""
    return page.frame_locator("main iframe").frame_locator("iframe").get_by_text(text)


@WIDE
@pytest.mark.usefixtures("files")
def test_documents_are_shown_as_pages_in_a_sandbox(page: Any) -> None:
    texts = {
        "a letter.docx": "Dear reader",
        "book.epub": "Chapter one",
        "open.odt": "Open paragraph",
        "talk.pptx": "Plans",
    }
    for name, text in texts.items():
        open_file(page, name)
        find_text(page, text).wait_for()
        assert page.locator("main iframe").get_attribute("sandbox") == "allow-scripts"
    assert page.locator("body > iframe").count() == 0, "a reader was left"
    assert "stolen" not in page.url


@pytest.mark.usefixtures("files")
def test_pictures_of_telephones_and_cameras_are_shown(page: Any) -> None:
    """A reader decodes them; it is fetched with the first such picture."""
    modules: list[str] = []
    page.on("request", lambda request: modules.append(request.url) if request.url.endswith(".wasm") else None)
    open_file(page, "camera.nef")
    picture = page.locator("main img")
    page.wait_for_function("() => document.querySelector('main img')?.naturalWidth === 160")
    assert modules == []
    page.get_by_role("button", name="Next picture").click()
    page.wait_for_url("**/photo.heic")
    page.wait_for_function("() => document.querySelector('main img')?.naturalWidth === 96")
    assert len(modules) == 1
    assert find_colors(picture, [0.25, 0.75]) == ["green", "red"]
    page.get_by_role("button", name="Full size").click()
    assert picture.evaluate("e => e.clientWidth") == 96
    assert find_violations(page, AXE) == []
    open_file(page, "broken.heic")
    page.get_by_text("This file cannot be shown").wait_for()


def find_colors(picture: Any, places: list[float]) -> list[str]:
    """The strongest colour at places of a picture, which are shares of its width."""
    script = """(image, places) => {
        const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight)
        const context = canvas.getContext('2d')
        context.drawImage(image, 0, 0)
        return places.map((place) => {
            const pixel = context.getImageData(place * canvas.width, canvas.height / 2, 1, 1).data.slice(0, 3)
            return ['red', 'green', 'blue'][pixel.indexOf(Math.max(...pixel))]
        })
    }"""
    colors: list[str] = picture.evaluate(script, places)
    return colors


@WIDE
@pytest.mark.usefixtures("files")
def test_a_font_shows_its_letters(page: Any) -> None:
    open_file(page, "letters.ttf")
    frame = page.frame_locator("main iframe").frame_locator("iframe")
    frame.locator("body").wait_for()
    family = "document.fonts.ready.then(() => [...document.fonts].map((font) => font.status))"
    assert frame.locator("body").evaluate(family) == ["loaded"]


@WIDE
@pytest.mark.usefixtures("files")
def test_tables_and_data_files_are_shown_as_rows(page: Any) -> None:
    for name, cell in {"bill.xlsx": "Lamp", "cities.parquet": "Oslo", "shop.sqlite": "Customer 7"}.items():
        open_file(page, name)
        page.get_by_role("cell", name=cell, exact=True).wait_for()
    page.get_by_text("The first 100 of 120 rows").wait_for()
    open_file(page, "towns.csv")
    page.get_by_role("cell", name="Town 1000", exact=True).wait_for()
    page.get_by_text("The first 1,000 of 1,200 rows").wait_for()
    assert find_violations(page, AXE) == []
    page.get_by_role("button", name="Source").click()
    page.get_by_text("Town 1200,1200").wait_for()


@WIDE
@pytest.mark.usefixtures("files")
def test_a_damaged_document_is_offered_as_a_download(page: Any) -> None:
    open_file(page, "broken.docx")
    page.get_by_text("This file cannot be shown").wait_for()
    assert page.get_by_role("link", name="Download instead").get_attribute("href")


@pytest.mark.usefixtures("files")
def test_arrows_and_buttons_lead_from_file_to_file(page: Any) -> None:
    open_file(page, "a letter.docx")
    page.get_by_role("button", name="Next file").click()
    page.wait_for_url("**/bill.xlsx")
    page.get_by_role("button", name="Previous file").click()
    page.wait_for_url("**/a%20letter.docx")
    page.get_by_role("button", name="Back to the folder").click()
    page.get_by_role("grid").wait_for()


@WIDE
@pytest.mark.usefixtures("files")
def test_sounds_of_a_folder_play_one_after_the_other(page: Any, shots: Path) -> None:
    open_file(page, "song 1.wav")
    playlist = page.get_by_role("navigation", name="Playlist")
    playlist.get_by_role("link", name="song 2.wav").wait_for()
    page.get_by_text("Rain", exact=True).wait_for()
    page.get_by_text("The Trees").wait_for()
    page.wait_for_function("() => document.querySelector('img[alt=Cover]')?.naturalWidth === 20")
    assert find_violations(page, AXE) == []
    page.screenshot(path=shots / "previews-sound.png")
    page.locator("audio").evaluate("audio => audio.play()")
    page.wait_for_url("**/song%202.wav")
    page.get_by_label("Speed").select_option("1.5 ×")
    assert page.locator("audio").evaluate("audio => audio.playbackRate") == 1.5


@WIDE
@pytest.mark.usefixtures("files")
def test_code_is_edited_with_numbers_colours_and_a_search(page: Any, shots: Path) -> None:
    open_file(page, "code.py")
    page.get_by_role("button", name="Edit").click()
    page.locator(".cm-lineNumbers").get_by_text("2", exact=True).wait_for()
    keyword = page.locator(".cm-line span", has_text="def")
    keyword.wait_for()
    assert keyword.evaluate("e => getComputedStyle(e).color") != page.locator("body").evaluate(
        "e => getComputedStyle(e).color"
    )
    page.keyboard.press("Control+f")
    page.keyboard.type("return")
    page.locator(".cm-searchMatch").wait_for()
    assert find_violations(page, AXE) == []
    page.screenshot(path=shots / "previews-editor.png")

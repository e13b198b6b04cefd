"""Habits of people who use files all day: by hand, by keyboard, in the look that they chose."""

from __future__ import annotations

import io
import wave
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import fill_sign_in, find_violations, select_row, sign_in
from tests.support.service import Service

WIDE = pytest.mark.parametrize("page", ["wide"], indirect=True)
PHONE = pytest.mark.parametrize("page", ["phone"], indirect=True)
FILM_SECONDS = 120
EXIF_MAKE, EXIF_MODEL, EXIF_POINTER, EXIF_ISO = 0x010F, 0x0110, 0x8769, 0x8827


@pytest.fixture
def folder(service: Service, request: pytest.FixtureRequest) -> str:
    """A new folder with three files and two folders."""
    path = f"/files/{request.node.name.replace('[', '-').rstrip(']')}"
    client = service.client()
    for name in ("letter.txt", "memo.txt", "notes.txt"):
        assert client.put(f"{path}/{name}", name.encode() * 100)["code"] == 200
    for name in ("inbox", "outbox"):
        client.ok("/api/fs/mkdir", path=f"{path}/{name}")
    return path


def make_photo() -> bytes:
    """A JPEG picture of 64 by 48 pixels with the data of a camera."""
    exif = Image.Exif()
    exif[EXIF_MAKE], exif[EXIF_MODEL] = "Acme", "Acme One"
    exif.get_ifd(EXIF_POINTER)[EXIF_ISO] = 200
    target = io.BytesIO()
    Image.new("RGB", (64, 48), (30, 90, 60)).save(target, "JPEG", exif=exif)
    return target.getvalue()


def make_film() -> bytes:
    """Two minutes of silence, which a browser plays as a film without pictures."""
    target = io.BytesIO()
    with wave.open(target, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(3000)
        sound.writeframes(b"\x80" * 3000 * FILM_SECONDS)
    return target.getvalue()


@WIDE
def test_entries_are_dragged_onto_places_and_copied_with_ctrl(page: Any, service: Service, folder: str) -> None:
    client = service.client()
    sign_in(page, f"/@{folder}")
    select_row(page, "inbox")
    page.keyboard.press("Shift+F10")
    page.get_by_role("menuitem", name="Add to favourites").click()
    place = page.get_by_role("navigation", name="Places").get_by_role("link", name="inbox")
    place.wait_for()
    page.get_by_role("row", name="letter.txt").get_by_role("link").drag_to(place)
    page.get_by_text("Moved to “inbox”").wait_for()
    assert client.names(f"{folder}/inbox") == ["letter.txt"]
    page.keyboard.down("Control")
    page.get_by_role("row", name="memo.txt").get_by_role("link").drag_to(page.get_by_role("row", name="outbox"))
    page.keyboard.up("Control")
    page.get_by_text("Copied to “outbox”").wait_for()
    assert client.names(f"{folder}/outbox") == ["memo.txt"]
    assert "memo.txt" in client.names(folder)


@WIDE
def test_cut_entries_are_pasted_and_come_back_by_undo(page: Any, service: Service, folder: str) -> None:
    client = service.client()
    sign_in(page, f"/@{folder}")
    select_row(page, "notes")
    page.keyboard.press("Control+x")
    page.get_by_role("link", name="outbox", exact=True).click()
    page.wait_for_url(f"**/@{folder}/outbox")
    page.get_by_text("This folder is empty").wait_for()
    page.get_by_role("grid").focus()
    page.keyboard.press("Control+v")
    page.get_by_role("row", name="notes.txt").wait_for()
    assert "notes.txt" not in client.names(folder)
    page.get_by_role("grid").focus()
    page.keyboard.press("Control+z")
    page.get_by_role("row", name="notes.txt").wait_for(state="detached")
    assert "notes.txt" in client.names(folder)


@WIDE
def test_details_show_what_a_camera_wrote_and_leave_room_for_tools(
    page: Any, service: Service, folder: str, shots: Path
) -> None:
    assert service.client().put(f"{folder}/photo.jpg", make_photo())["code"] == 200
    sign_in(page, f"/@{folder}")
    select_row(page, "photo")
    page.get_by_role("button", name="Details", exact=True).click()
    pane = page.get_by_role("complementary", name="Details")
    for text in ("64 × 48 pixels", "Acme One", "200", "Local"):
        pane.get_by_text(text, exact=True).wait_for()
    end = pane.bounding_box()["x"]
    buttons = page.locator(".toolbar button:visible")
    assert buttons.count() > 8
    assert all(box["x"] + box["width"] <= end for box in map(lambda button: button.bounding_box(), buttons.all()))
    page.screenshot(path=shots / "habits-details.png")
    assert find_violations(page, AXE) == []
    pane.get_by_role("button", name="Close").click()
    pane.wait_for(state="detached")


@WIDE
def test_film_goes_on_where_it_was_left_at_the_speed_chosen(page: Any, service: Service, folder: str) -> None:
    assert service.client().put(f"{folder}/long.mp4", make_film())["code"] == 200
    page.goto(f"/@{folder}/long.mp4")
    fill_sign_in(page)
    film = page.locator("video")
    page.wait_for_function("() => document.querySelector('video')?.readyState >= 1")
    page.get_by_label("Speed").select_option("1.5 ×")
    assert film.evaluate("film => film.playbackRate") == 1.5
    film.evaluate("film => { film.pause(); film.currentTime = 70 }")
    page.wait_for_function("() => document.querySelector('video')?.currentTime === 70")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="long.mp4").click()
    page.wait_for_function("() => document.querySelector('video')?.currentTime >= 70")


@WIDE
def test_theme_and_density_are_chosen_and_kept(page: Any, service: Service, shots: Path) -> None:
    page.goto("/@profile")
    fill_sign_in(page)
    ground = "() => getComputedStyle(document.body).backgroundColor"
    control = "() => document.querySelector('main button').getBoundingClientRect().height"
    page.get_by_role("radio", name="Light").check()
    light, comfortable = page.evaluate(ground), page.evaluate(control)
    page.get_by_role("radio", name="Dark").check()
    page.get_by_role("radio", name="Compact").check()
    assert page.evaluate(ground) != light
    assert page.evaluate(control) < comfortable
    assert find_violations(page, AXE) == []
    dark = page.evaluate(ground)
    page.reload()
    page.get_by_role("radio", name="Dark").wait_for()
    assert page.evaluate(ground) == dark
    assert page.get_by_role("radio", name="Compact").is_checked()
    page.screenshot(path=shots / "habits-dark.png")


@WIDE
def test_nothing_moves_for_those_who_ask_for_rest(page: Any, folder: str) -> None:
    duration = "() => parseFloat(getComputedStyle(document.querySelector('.toolbar button')).transitionDuration) || 0"
    sign_in(page, f"/@{folder}")
    assert 0 < page.evaluate(duration) <= 0.15
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(duration) == 0


def test_first_steps_lead_on_and_can_be_hidden(page: Any, service: Service, shots: Path) -> None:
    sign_in(page)
    steps = page.get_by_role("region", name="First steps")
    steps.get_by_role("link", name="Make a user").click()
    page.wait_for_url("**/@manage/users/new")
    page.go_back()
    steps.get_by_role("link", name="Add a storage").click()
    page.wait_for_url("**/@manage/storages/new")
    page.get_by_role("button", name="SFTP").or_(page.get_by_role("radio", name="SFTP")).first.wait_for()
    page.go_back()
    steps.get_by_role("link", name="Change the password").click()
    page.wait_for_url("**/@profile")
    page.go_back()
    page.screenshot(path=shots / f"habits-steps-{page.viewport_size['width']}.png")
    assert find_violations(page, AXE) == []
    steps.get_by_role("button", name="Hide the steps").click()
    steps.wait_for(state="detached")
    page.reload()
    page.get_by_role("grid").wait_for()
    assert steps.count() == 0


@WIDE
def test_a_new_storage_is_among_the_places_at_once(page: Any, service: Service, tmp_path: Path) -> None:
    page.goto("/@manage/storages/new")
    fill_sign_in(page)
    places = page.get_by_role("navigation", name="Places")
    page.get_by_label("Mount path").fill("/paper")
    page.get_by_label("Root folder path").fill(str(tmp_path))
    page.get_by_role("button", name="Add the storage").click()
    places.get_by_role("link", name="paper").wait_for()
    page.get_by_role("button", name="Actions for /paper").click()
    page.get_by_role("menuitem", name="Remove", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    places.get_by_role("link", name="paper").wait_for(state="detached")


@WIDE
def test_browsers_can_install_the_page(page: Any) -> None:
    page.goto("/@login")
    page.get_by_label("User name").wait_for()
    session = page.context.new_cdp_session(page)
    manifest = session.send("Page.getAppManifest")
    assert manifest["errors"] == []
    assert '"display":"standalone"' in manifest["data"]
    errors = session.send("Page.getInstallabilityErrors")["installabilityErrors"]
    assert [error["errorId"] for error in errors] == ["in-incognito"]  # as every window of a test is


@WIDE
def test_full_screen_shows_the_file_alone(page: Any, folder: str) -> None:
    page.goto(f"/@{folder}/letter.txt")
    fill_sign_in(page)
    page.get_by_role("button", name="Full screen").click()
    page.wait_for_function("() => document.fullscreenElement !== null")
    page.locator("#header").wait_for(state="hidden")
    page.get_by_role("button", name="Full screen").click()
    page.locator("#header").wait_for()


def test_nothing_at_an_address_is_said_once(page: Any, folder: str) -> None:
    sign_in(page, f"/@{folder}")
    page.keyboard.press("Alt+Enter")
    page.get_by_role("complementary", name="Details").wait_for()
    page.goto(f"/@{folder}/nothing")
    page.get_by_role("alert").get_by_text("There is nothing at this address").wait_for()
    assert page.get_by_text("nothing at this address").count() == 1
    assert page.get_by_role("complementary", name="Details").count() == 0


def test_an_empty_folder_has_the_next_step(page: Any, service: Service, folder: str) -> None:
    sign_in(page, f"/@{folder}/inbox")
    page.get_by_text("This folder is empty").wait_for()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("main").get_by_role("button", name="Upload files").click()
    chooser.value.set_files({"name": "first.txt", "mimeType": "text/plain", "buffer": b"1"})
    page.get_by_role("row", name="first.txt").wait_for()
    assert service.client().names(f"{folder}/inbox") == ["first.txt"]


@PHONE
def test_head_of_a_file_has_two_lines_on_a_phone(page: Any, folder: str) -> None:
    page.goto(f"/@{folder}/letter.txt")
    fill_sign_in(page)
    page.get_by_role("link", name="Download", exact=True).wait_for()
    page.get_by_role("button", name="Next file").wait_for()
    tops = (
        page.locator(".head")
        .locator("button:visible, a:visible")
        .evaluate_all("tools => [...new Set(tools.map((tool) => Math.round(tool.getBoundingClientRect().top / 8)))]")
    )
    assert len(tops) == 2
    assert find_violations(page, AXE) == []


@PHONE
def test_keys_are_listed_below_each_other_on_a_phone(page: Any) -> None:
    sign_in(page)
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("In a preview").scroll_into_view_if_needed()
    box = dialog.get_by_text("In a preview").bounding_box()
    assert 0 <= box["x"] < page.viewport_size["width"] / 2


@pytest.mark.parametrize(
    ("section", "sentence"), [("locks", "no locks"), ("groups", "no groups"), ("rules", "no rules")]
)
@WIDE
def test_empty_sections_have_a_drawing(page: Any, section: str, sentence: str) -> None:
    page.goto(f"/@manage/{section}")
    fill_sign_in(page)
    page.locator(".empty-state svg").wait_for()
    page.get_by_text(sentence).wait_for()
    assert find_violations(page, AXE) == []

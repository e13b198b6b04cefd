"""Every view in both themes and both languages, checked with axe-core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.page.conftest import AXE, VIEWS
from tests.e2e.page.documents import find_font, make_docx, make_xlsx
from tests.e2e.page.samples import FILM, make_pdf, make_picture, make_sound, make_zip
from tests.e2e.page.steps import find_violations
from tests.support.service import ADMIN_PASSWORD, Service

FOLDER = "/files/views"
PASSWORD = "passwort"
CONTENTS = {
    "archive.zip": make_zip({"inside/a.txt": b"text"}),
    "code.py": b"def greet():\n    return 1\n",
    "film.webm": FILM,
    "letter.docx": make_docx("Dear reader"),
    "notes.md": b"# Notes\n\n- [x] done\n",
    "page.pdf": make_pdf("Page"),
    "photo.png": make_picture(40, 30, (90, 120, 200)),
    "sound.wav": make_sound(),
    "table.csv": b"Town,People\nUlm,1\n",
    "text.txt": b"text",
    "bill.xlsx": make_xlsx([["Item", "Price"], ["Lamp", "12"]]),
}
SECTIONS = (
    *("overview", "storages", "users", "users/new", "groups", "groups/new", "rules", "rules/new", "locks"),
    *("settings", "settings/access", "tools", "index", "audit", "backup"),
)
ADDRESSES = (
    *("/@/", f"/@{FOLDER}", f"/@{FOLDER}/empty", f"/@{FOLDER}/missing", "/@links", "/@profile", "/@trash", "/@unknown"),
    *(f"/@manage/{section}" for section in SECTIONS),
)
DIALOG = "dialog[open], [role=dialog]"
KEYS = {  # what a key opens above the list: the key, and what is there then
    "command palette": ("Control+k", DIALOG),
    "list of keys": ("?", DIALOG),
    "search": ("/", "input[type=search]"),
    "details": ("i", "aside"),
    "quick look": (" ", DIALOG),
    "rename": ("F2", DIALOG),
    "remove": ("Delete", DIALOG),
}
LANGUAGES = {"en": "Loading…", "zh": "正在加载…"}
Open = Callable[[Any], None]


@pytest.fixture(scope="module")
def shares(service: Service) -> dict[str, str]:
    """The files of the views; addresses of shares by their kinds."""
    admin = service.client()
    for name, content in {**CONTENTS, "letters.ttf": find_font()}.items():
        assert admin.put(f"{FOLDER}/{name}", content)["code"] == 200
    admin.ok("/api/fs/mkdir", path=f"{FOLDER}/empty")

    def make(**fields: Any) -> str:
        return f"/@s/{admin.ok('/api/share/create', files=[FOLDER], **fields)['id']}"

    return {"share": make(), "share with a password": make(pwd=PASSWORD), "ended share": make(disabled=True)}


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["light", "dark"])
def visitor(request: pytest.FixtureRequest, browser: Any, service: Service, language: str) -> Iterator[Any]:
    """A page in a browser of a language and a theme that was never here."""
    width, height = VIEWS["wide"]
    context = browser.new_context(
        base_url=service.address,
        locale=language,
        color_scheme=request.param,
        reduced_motion="reduce",
        viewport={"width": width, "height": height},
    )
    context.set_default_timeout(20_000)
    yield context.new_page()
    context.close()


def _open(page: Any, address: str, language: str) -> None:
    """Open an address and wait until nothing of the view is loading."""
    page.goto(address)
    page.locator("#content").wait_for()
    page.wait_for_function(
        "word => document.querySelector('#content h1, #content form') && !document.body.innerText.includes(word)",
        arg=LANGUAGES[language],
    )


def _sign_in(page: Any) -> None:
    page.locator("[autocomplete=username]").fill("admin")
    page.locator("[autocomplete=current-password]").fill(ADMIN_PASSWORD)
    page.keyboard.press("Enter")
    page.get_by_role("grid").wait_for()


def test_no_view_has_a_violation(visitor: Any, shares: dict[str, str], language: str) -> None:
    """More than 30 views, one after the other, so that the report names all that have violations."""
    violations: dict[str, list[str]] = {}
    for name, address in {"sign-in": "/@login", **shares}.items():
        _open(visitor, address, language)
        violations[name] = find_violations(visitor, AXE)
    visitor.goto(f"/@login?next={FOLDER}")
    _sign_in(visitor)
    for address in (*ADDRESSES, *(f"/@{FOLDER}/{name}" for name in (*CONTENTS, "letters.ttf"))):
        _open(visitor, address, language)
        violations[address] = find_violations(visitor, AXE)
    for name, (key, selector) in KEYS.items():
        _open(visitor, f"/@{FOLDER}", language)
        visitor.get_by_role("grid").focus()
        visitor.keyboard.type("text.txt")
        visitor.locator("[role=row][aria-selected=true]", has_text="text.txt").wait_for()
        visitor.wait_for_timeout(1100)  # typing ends a second after the last letter
        visitor.keyboard.press(key)
        visitor.locator(selector).first.wait_for()
        violations[name] = find_violations(visitor, AXE)
    assert len(violations) >= 30
    assert {name: rows for name, rows in violations.items() if rows} == {}

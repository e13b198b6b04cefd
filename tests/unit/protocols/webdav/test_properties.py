"""The answer of one entry: which properties it has, and how long it may get."""

from __future__ import annotations

from mangrove.drivers.base import Entry
from mangrove.protocols.webdav.bodies import PropertyRequest
from mangrove.protocols.webdav.properties import MAX_VALUE_CHARACTERS_PER_ENTRY, Renderer, Resource

FILE = Entry("f", 4, 0.0, False)


def render(request: PropertyRequest, **dead: str) -> str:
    return Renderer(request).render(Resource("/dav/f", FILE, 1, {f"{{u}}{name}": dead[name] for name in dead}))


def test_render_values_beyond_bound_answers_507_for_these() -> None:
    value = "v" * (MAX_VALUE_CHARACTERS_PER_ENTRY // 3)
    text = render(PropertyRequest(is_all=True), a=value, b=value, c=value, d="<d/>")
    assert text.count("vvv" * 10) and len(text) < MAX_VALUE_CHARACTERS_PER_ENTRY + 4096
    excess = text.partition("507 Insufficient Storage")[0].rpartition("<D:propstat>")[2]
    assert 'c xmlns="u"' in excess and 'a xmlns="u"' not in excess and "<d/>" in text


def test_render_missing_names_repeats_one_rendering() -> None:
    renderer = Renderer(PropertyRequest(["{u}a", "{u}b", "{DAV:}getcontentlength"]))
    first = renderer.render(Resource("/dav/f", FILE, 1))
    second = renderer.render(Resource("/dav/g", FILE._replace(name="g"), 1, {"{u}a": "<a/>"}))
    assert first.count("404 Not Found") == second.count("404 Not Found") == 1
    assert '<a xmlns="u"/><b xmlns="u"/>' in first and "<a/>" in second and '<a xmlns="u"/>' not in second
    assert first == renderer.render(Resource("/dav/f", FILE, 1))

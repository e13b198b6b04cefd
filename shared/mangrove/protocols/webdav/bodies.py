"""The XML that clients send: parsed without document types and entities, and bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

from defusedxml import ElementTree as SafeTree
from defusedxml.common import DefusedXmlException

from mangrove.core.problems import BadRequest

LONGEST = 64 << 10  # bytes: what is parsed on the event loop takes milliseconds
MOST_ELEMENTS = 5_000
DEEPEST = 64
DAV = "{DAV:}"
LONGEST_OWNER = 1024  # characters of what a client calls itself
XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What PROPFIND asks for: `names` of properties, as `{namespace}name`; all of them (`is_all`, then `names` are
    those beside the usual ones); or only what they are called (`is_names`)."""

    names: Sequence[str] = ()
    is_all: bool = False
    is_names: bool = False


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """One step of PROPPATCH: a property is set to an element, or removed (None)."""

    name: str
    element: str | None


@dataclass(frozen=True, slots=True)
class LockWish:
    """What LOCK asks for. `owner`: what the client calls itself, as XML."""

    is_exclusive: bool
    owner: str = field(default="")


def _parse(body: bytes, root: str) -> Element:
    try:
        found: Element = SafeTree.fromstring(body, forbid_dtd=True)
    except (ElementTree.ParseError, DefusedXmlException, ValueError, LookupError):
        raise BadRequest("the body is no XML, or has a document type") from None
    _check_size(found)
    if found.tag != DAV + root:
        raise BadRequest(f"the body is no {root} of DAV:")
    return found


def _check_size(root: Element) -> None:
    count, level = 0, [root]
    for _ in range(DEEPEST):
        count += len(level)
        if count > MOST_ELEMENTS:
            raise BadRequest("the body has too many elements")
        level = [child for element in level for child in element]
        if not level:
            return
    raise BadRequest("the body is too deep")


def parse_propfind(body: bytes) -> Wanted:
    """What is asked for; without a body everything. BadRequest."""
    if not body.strip():
        return Wanted(is_all=True)
    root = _parse(body, "propfind")
    if root.find(DAV + "propname") is not None:
        return Wanted(is_names=True)
    if root.find(DAV + "allprop") is not None:
        included = root.find(DAV + "include")
        return Wanted([child.tag for child in included] if included is not None else (), is_all=True)
    asked = root.find(DAV + "prop")
    if asked is None:
        raise BadRequest("the body asks for nothing")
    return Wanted(list(dict.fromkeys(child.tag for child in asked)))


def parse_proppatch(body: bytes) -> list[PropertyChange]:
    """The steps in their order; BadRequest."""
    changes: list[PropertyChange] = []
    for step in _parse(body, "propertyupdate"):
        if step.tag not in (DAV + "set", DAV + "remove"):
            continue
        for properties in step.iterfind(DAV + "prop"):
            for element in properties:
                changes.append(PropertyChange(element.tag, _serialize(element, properties, step)))
    if not changes:
        raise BadRequest("the body changes nothing")
    return changes


def _serialize(element: Element, *above: Element) -> str | None:
    """A property as it is kept, in the language that was said above it; None for one that is to be removed."""
    if above[-1].tag == DAV + "remove":
        return None
    language = next((one.get(XML_LANG) for one in above if one.get(XML_LANG)), None)
    if language and element.get(XML_LANG) is None:
        element.set(XML_LANG, language)
    element.tail = None
    return ElementTree.tostring(element, encoding="unicode")


def parse_lockinfo(body: bytes) -> LockWish:
    """Which lock is wanted; BadRequest."""
    root = _parse(body, "lockinfo")
    if root.find(f"{DAV}locktype/{DAV}write") is None:
        raise BadRequest("there are write locks alone")
    scopes = {scope.tag for scope in root.iterfind(f"{DAV}lockscope/*")}
    if len(scopes) != 1 or not scopes <= {DAV + "exclusive", DAV + "shared"}:
        raise BadRequest("the body says no scope")
    return LockWish(DAV + "exclusive" in scopes, _read_owner(root.find(DAV + "owner")))


def _read_owner(owner: Element | None) -> str:
    if owner is None:
        return ""
    inner = escape(owner.text or "") + "".join(ElementTree.tostring(child, encoding="unicode") for child in owner)
    if len(inner) > LONGEST_OWNER:
        raise BadRequest("the owner of the lock is too long")
    return inner


def split_name(tag: str) -> tuple[str, str]:
    """The namespace and the name in `{namespace}name`."""
    namespace, brace, name = tag.rpartition("}")
    return (namespace.removeprefix("{"), name) if brace else ("", tag)


def quote_attribute(text: str) -> str:
    """A text between the quotes of an attribute."""
    return escape(text, QUOTES)


QUOTES: Mapping[str, str] = {'"': "&quot;", "\n": "&#10;", "\t": "&#9;"}

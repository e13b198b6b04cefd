"""The XML that clients send. It is parsed without document types and entities, and limits apply while it is read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, TreeBuilder
from xml.sax.saxutils import escape

from defusedxml import ElementTree as SafeTree
from defusedxml.common import DefusedXmlException

from mangrove.core.problems import BadRequest, TooLarge

MAX_BODY_BYTES = 64 << 10  # parsing on the event loop takes milliseconds
MAX_ELEMENTS_PER_BODY = 2000
MAX_DEPTH_OF_BODY = 64
MAX_NAMES_PER_PROPFIND = 64
MAX_NAMES_PER_PROPPATCH = 64
MAX_NAMESPACES_PER_BODY = 64
MAX_NAMESPACE_CHARACTERS = 256
MAX_NAME_CHARACTERS = 256  # of an element or attribute, without its namespace
MAX_OWNER_CHARACTERS = 1024  # of the text with which a client names the owner of a lock
DAV = "{DAV:}"
XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
QUOTES: Mapping[str, str] = {'"': "&quot;", "\n": "&#10;", "\t": "&#9;"}


@dataclass(frozen=True, slots=True)
class PropertyRequest:
    """The body of a PROPFIND."""

    names: Sequence[str] = ()  # of properties, as `{namespace}name`; with `is_all`, in addition to the usual ones
    is_all: bool = False  # all properties with their values
    is_names: bool = False  # the names of all properties, without values


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """One step of PROPPATCH."""

    name: str
    element: str | None  # the new value as XML; None removes the property


@dataclass(frozen=True, slots=True)
class LockRequest:
    """The body of a LOCK."""

    is_exclusive: bool
    owner: str = field(default="")  # the text with which the client describes itself, as XML


class _BoundedBuilder(TreeBuilder):
    """A tree builder that refuses an element as soon as it exceeds a limit, before the tree grows."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0
        self._depth = 0
        self._namespaces: set[str] = set()

    def start(self, tag: str, attrs: dict[str, str], /) -> Element:
        self._count += 1
        self._depth += 1
        if self._count > MAX_ELEMENTS_PER_BODY:
            raise BadRequest(f"the body has more than {MAX_ELEMENTS_PER_BODY} elements")
        if self._depth > MAX_DEPTH_OF_BODY:
            raise BadRequest("the body is too deep")
        self._check_name(tag)
        for name in attrs:
            self._check_name(name)
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(tag)

    def _check_name(self, name: str) -> None:
        namespace, local = split_name(name)
        if len(namespace) > MAX_NAMESPACE_CHARACTERS:
            raise BadRequest(f"a namespace may have {MAX_NAMESPACE_CHARACTERS} characters")
        if len(local) > MAX_NAME_CHARACTERS:
            raise BadRequest(f"the name of an element or attribute may have {MAX_NAME_CHARACTERS} characters")
        self._namespaces.add(namespace)
        if len(self._namespaces) > MAX_NAMESPACES_PER_BODY:
            raise BadRequest(f"the body has more than {MAX_NAMESPACES_PER_BODY} namespaces")


def _parse(body: bytes, root: str) -> Element:
    try:
        parser = SafeTree.XMLParser(target=_BoundedBuilder(), forbid_dtd=True)
        parser.feed(body)
        element: Element = parser.close()
    except (ElementTree.ParseError, DefusedXmlException, ValueError, LookupError):
        raise BadRequest("the body is not XML, or has a document type") from None
    if element.tag != DAV + root:
        raise BadRequest(f"the body is not a {root} of DAV:")
    return element


def parse_propfind(body: bytes) -> PropertyRequest:
    """Return the request of a PROPFIND; without a body, all properties. Raise BadRequest."""
    if not body.strip():
        return PropertyRequest(is_all=True)
    root = _parse(body, "propfind")
    if root.find(DAV + "propname") is not None:
        return PropertyRequest(is_names=True)
    if root.find(DAV + "allprop") is not None:
        return PropertyRequest(_read_names(root.find(DAV + "include")), is_all=True)
    properties = root.find(DAV + "prop")
    if properties is None:
        raise BadRequest("the body asks for nothing")
    return PropertyRequest(_read_names(properties))


def _read_names(properties: Element | None) -> Sequence[str]:
    names = [*dict.fromkeys(element.tag for element in properties)] if properties is not None else []
    if len(names) > MAX_NAMES_PER_PROPFIND:
        raise BadRequest(f"one PROPFIND may ask for {MAX_NAMES_PER_PROPFIND} properties by name")
    return names


def parse_proppatch(body: bytes) -> list[PropertyChange]:
    """Return the steps of a PROPPATCH in their order. Raise BadRequest."""
    elements = [*_iterate_changes(_parse(body, "propertyupdate"))]
    if not elements:
        raise BadRequest("the body changes nothing")
    if len(elements) > MAX_NAMES_PER_PROPPATCH:
        raise BadRequest(f"one PROPPATCH may change {MAX_NAMES_PER_PROPPATCH} properties")
    return [PropertyChange(element.tag, _serialize(element, *above)) for element, *above in elements]


def _iterate_changes(root: Element) -> Iterator[tuple[Element, Element, Element]]:
    """Yield each property with the two elements above it."""
    for step in root:
        if step.tag in (DAV + "set", DAV + "remove"):
            for properties in step.iterfind(DAV + "prop"):
                for element in properties:
                    yield element, properties, step


def _serialize(element: Element, *above: Element) -> str | None:
    """Return a property as it is stored, with the language declared above it; None if it is to be removed."""
    if above[-1].tag == DAV + "remove":
        return None
    language = next((parent.get(XML_LANG) for parent in above if parent.get(XML_LANG)), None)
    if language and element.get(XML_LANG) is None:
        element.set(XML_LANG, language)
    element.tail = None
    return ElementTree.tostring(element, encoding="unicode")


def parse_lockinfo(body: bytes) -> LockRequest:
    """Return the lock that a LOCK requests. Raise BadRequest."""
    root = _parse(body, "lockinfo")
    if root.find(f"{DAV}locktype/{DAV}write") is None:
        raise BadRequest("only write locks are supported")
    scopes = {scope.tag for scope in root.iterfind(f"{DAV}lockscope/*")}
    if len(scopes) != 1 or not scopes <= {DAV + "exclusive", DAV + "shared"}:
        raise BadRequest("the body does not name a scope")
    return LockRequest(DAV + "exclusive" in scopes, _read_owner(root.find(DAV + "owner")))


def _read_owner(owner: Element | None) -> str:
    if owner is None:
        return ""
    text = escape(owner.text or "")
    for child in owner:
        text += ElementTree.tostring(child, encoding="unicode")
        if len(text) > MAX_OWNER_CHARACTERS:
            break
    if len(text) > MAX_OWNER_CHARACTERS:
        raise BadRequest(f"the owner of a lock may have {MAX_OWNER_CHARACTERS} characters")
    return text


class RepeatableBody(AsyncIterator[bytes]):
    """A body that can be read twice: what the first reader got comes again after `rewind`."""

    def __init__(self, body: AsyncIterator[bytes]) -> None:
        self._body = body
        self._read: list[bytes] = []
        self._again: list[bytes] = []  # in reverse order
        self._is_kept = True

    async def __anext__(self) -> bytes:
        if self._again:
            return self._again.pop()
        chunk = await anext(self._body)
        if self._is_kept:
            self._read.append(chunk)
        return chunk

    def rewind(self) -> None:
        """Start again, for the last time."""
        self._again, self._read, self._is_kept = self._read[::-1], [], False


def check_body_size(count: int) -> None:
    """Raise TooLarge for a body of more than MAX_BODY_BYTES."""
    if count > MAX_BODY_BYTES:
        raise TooLarge(f"a body of XML may have {MAX_BODY_BYTES} bytes")


def split_name(tag: str) -> tuple[str, str]:
    """Return the namespace and the name in `{namespace}name`."""
    namespace, brace, name = tag.rpartition("}")
    return (namespace.removeprefix("{"), name) if brace else ("", tag)


def quote_attribute(text: str) -> str:
    """Escape a text for the quotes of an attribute."""
    return escape(text, QUOTES)

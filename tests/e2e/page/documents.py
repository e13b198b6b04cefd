"""Small documents of many formats, made by hand."""

from __future__ import annotations

import base64
import io
import sqlite3
import struct
import zipfile
from pathlib import Path

import playwright
from PIL import Image

from tests.e2e.page.samples import make_picture, make_sound

PARQUET = base64.b64decode(
    "UEFSMRUAFSwVMCwVBBUAFQYVBhwAAAAWVAIAAAAEAQQAAABPc2xvBAAAAExpbWEVABUsFTAsFQQVABUGFQYcAAAAFlQCAAAABAHNAgAAAAAAAG"
    "wnAAAAAAAAFQQZPDUAGAZzY2hlbWEVBAAVDCUCGARjaXR5JQBMHAAAABUEJQIYBnBlb3BsZQAWBBkcGSwmABwVDBklBgAZGARjaXR5FQIWBBZS"
    "FlYmCEkcFQAVABUCADwWEBkGGSYABAAAACYAHBUEGSUGABkYBnBlb3BsZRUCFgQWUhZWJl5JHBUAFQAVAgA8KQYZJgAEAAAAFqQBFgQmCBasAQ"
    "AoIHBhcnF1ZXQtY3BwLWFycm93IHZlcnNpb24gMjYuMC4xGSwcAAAcAAAAyQAAAFBBUjE="
)
# 96 by 64 pixels, the left half green, the right half red
HEIC = base64.b64decode(
    "AAAAHGZ0eXBoZWljAAAAAG1pZjFoZWljbWlhZgAAAVZtZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAAACJpbG9jAA"
    "AAAERAAAEAAQAAAAABegABAAAAAAAAAFEAAAAjaWluZgAAAAAAAQAAABVpbmZlAgAAAAABAABodmMxAAAAAA5waXRtAAAAAAABAAAA1mlwcnAA"
    "AAC3aXBjbwAAAHhodmNDAQNwAAAAkAAAAAAAHvAA/P34+AAADwNgAAEAGEABDAH//wNwAAADAJAAAAMAAAMAHroCQGEAAQArQgEBA3AAAAMAkA"
    "AAAwAAAwAeoDCBBZbqSSmubgIaDAgAAAMAyAAAAwAIQGIAAQAHRAHBcrAiQAAAABNjb2xybmNseAABAA0ABoAAAAAUaXNwZQAAAAAAAABgAAAA"
    "QAAAABBwaXhpAAAAAAMICAgAAAAXaXBtYQAAAAAAAAABAAEEgQIDBAAAAFltZGF0AAAATSgBr1iLMg6SX//ytdyLmf/yhpOjcW6JKf6aHr9ugU"
    "BjwebLXKNsHekHIUAPcUpYLBjjnWq8zwkEiq6gpWCa9RsfKpsI4ddfoEtJA8MY"
)
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"


def _make_zip(members: dict[str, str | bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target.getvalue()


def _make_relations(kind: str, target: str) -> str:
    relation = f'<Relationship Id="r1" Type="{OFFICE}/{kind}" Target="{target}"/>'
    return f'<Relationships xmlns="{RELATIONS}">{relation}</Relationships>'


def _make_types(part: str, kind: str) -> str:
    return (
        f'<Types xmlns="{TYPES}"><Default Extension="xml" ContentType="application/xml"/>'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/{part}" ContentType="application/vnd.openxmlformats-officedocument.{kind}+xml"/></Types>'
    )


def make_docx(text: str) -> bytes:
    body = f"<w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body>"
    return _make_zip(
        {
            "[Content_Types].xml": _make_types("word/document.xml", "wordprocessingml.document.main"),
            "_rels/.rels": _make_relations("officeDocument", "word/document.xml"),
            "word/document.xml": f'<w:document xmlns:w="{WORD}">{body}</w:document>',
        }
    )


def make_xlsx(rows: list[list[str]]) -> bytes:
    cells = "".join(
        "<row>" + "".join(f'<c t="inlineStr"><is><t>{cell}</t></is></c>' for cell in row) + "</row>" for row in rows
    )
    return _make_zip(
        {
            "[Content_Types].xml": _make_types("xl/workbook.xml", "spreadsheetml.sheet.main"),
            "_rels/.rels": _make_relations("officeDocument", "xl/workbook.xml"),
            "xl/_rels/workbook.xml.rels": _make_relations("worksheet", "worksheets/sheet1.xml"),
            "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{OFFICE}"><sheets>'
            '<sheet name="Sheet" sheetId="1" r:id="r1"/></sheets></workbook>',
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{SHEET}"><sheetData>{cells}</sheetData></worksheet>',
        }
    )


def make_pptx(title: str) -> bytes:
    namespaces = f'xmlns:p="{SLIDES}" xmlns:a="{DRAWING}" xmlns:r="{OFFICE}"'
    shape = f'<p:sp><p:nvPr><p:ph type="title"/></p:nvPr><a:p><a:r><a:t>{title}</a:t></a:r></a:p></p:sp>'
    return _make_zip(
        {
            "ppt/presentation.xml": f"<p:presentation {namespaces}><p:sldIdLst>"
            '<p:sldId id="256" r:id="r1"/></p:sldIdLst></p:presentation>',
            "ppt/_rels/presentation.xml.rels": _make_relations("slide", "slides/slide1.xml"),
            "ppt/slides/slide1.xml": f"<p:sld {namespaces}>{shape}</p:sld>",
        }
    )


def make_odt(text: str) -> bytes:
    office, words = "urn:oasis:names:tc:opendocument:xmlns:office:1.0", "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
    content = f'<office:document-content xmlns:office="{office}" xmlns:text="{words}"><office:body><office:text>'
    return _make_zip(
        {"content.xml": f"{content}<text:p>{text}</text:p></office:text></office:body></office:document-content>"}
    )


def make_epub(text: str) -> bytes:
    """A book with a picture, and a script that must not run."""
    chapter = f'<h1>{text}</h1><img src="p.png" alt="seal"/><script>top.location = "/stolen"</script>'
    return _make_zip(
        {
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="b/c.opf"/></rootfiles></container>',
            "b/c.opf": '<package><manifest><item id="a" href="a.xhtml"/></manifest>'
            '<spine><itemref idref="a"/></spine></package>',
            "b/a.xhtml": f'<html xmlns="http://www.w3.org/1999/xhtml"><body>{chapter}</body></html>',
            "b/p.png": make_picture(20, 10, (200, 40, 40)),
        }
    )


def make_sqlite(folder: Path) -> bytes:
    path = folder / "shop.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
        database.executemany("INSERT INTO customers (name) VALUES (?)", [(f"Customer {n}",) for n in range(120)])
    database.close()
    return path.read_bytes()


def make_raw() -> bytes:
    """A picture of a camera: data of a sensor around a JPEG picture of 160 × 120 pixels."""
    target = io.BytesIO()
    Image.effect_noise((160, 120), 80).convert("RGB").save(target, "JPEG", quality=95)
    return b"II*\0\x08\0\0\0" + bytes(1000) + target.getvalue() + bytes(1000)


def make_song(title: str, artist: str, cover: bytes) -> bytes:
    """A second of silence, with the tags and the cover of MP3 in a WAV file."""

    def frame(name: bytes, content: bytes) -> bytes:
        return name + struct.pack(">IH", len(content), 0) + content

    frames = (
        frame(b"TIT2", b"\3" + title.encode())
        + frame(b"TPE1", b"\3" + artist.encode())
        + frame(b"APIC", b"\3image/png\0\3\0" + cover)
    )
    size = bytes((len(frames) >> shift) & 0x7F for shift in (21, 14, 7, 0))
    tags = b"ID3\3\0\0" + size + frames
    sound = make_sound()
    chunk = b"id3 " + struct.pack("<I", len(tags)) + tags + b"\0" * (len(tags) % 2)
    return b"RIFF" + struct.pack("<I", len(sound) - 8 + len(chunk)) + sound[8:] + chunk


def find_font() -> bytes:
    """A font of a program that the tests use."""
    return next(Path(playwright.__file__).parent.rglob("codicon*.ttf")).read_bytes()

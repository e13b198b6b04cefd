"""Small files of many kinds, made by hand."""

from __future__ import annotations

import base64
import io
import struct
import wave
import zipfile
import zlib

import pyzipper

# half a second of a square that changes its colour, recorded in a browser
FILM = base64.b64decode(
    "GkXfo59ChoEBQveBAULygQRC84EIQoKEd2VibUKHgQRChYECGFOAZwEAAAAAAAI1EU2bdLlNu4tTq4QVSalmU6yBbk27i1OrhBZUrmtTrIGTTbuLU6uEH0O2"
    "dVOsgdRNu4xTq4QcU7trU6yCAiPsrgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAVSalmoCrXsYMPQkBEiYRDt7ScTYCG"
    "Q2hyb21lV0GGQ2hyb21lFlSua7yuuteBAXPFh84FwsNQLraDgQFV7oEBhoVWX1ZQOOCdsIEQuoEQU8CBAVWwkFWxgQFVuYECVbqBDVW7gQEfQ7Z1AQAAAAAA"
    "AUPngQCg36G1gQAAADACAJ0BKhAAEAADBwiFhYiZhIgQAgJ09G9PgP755wP/gTv/+BO//4E7/wJ2MJpI7AB1oaWmo+6BAaWeEAIAnQEqEAAQAAiHCIWFiJmE"
    "iC4CAAwNYAD+7xAAoMqhqoEAXgDxAQAMELAAGAdgEGX/5pmB/wD+8JtD18AU9Uf/ZWP/Ssf+lY/coHWhmKaW7oEBpZGxAQAiEXQAGAAYWC/0AAgAAPuBAKDI"
    "oaiBAM4AsQEADBDsABgAMD/0DADvAP7w+iv/Qk/+CT/4JP3Tw5EvhIQAdaGYppbugQGlkbEBACIRwAAYABhYL/QACAAA+4FeoMehp4EBbwCxAQAMERwAGAAw"
    "P/QMAO8A/uy9iKQ5FjkBP/yz/z++LvRgAHWhmKaW7oEBpZGxAQAiEcAAGAAYWC/0AAgAAPuBzhxTu2uNu4uzgQC3hveBAfGB1A=="
)


def make_picture(width: int, height: int, color: tuple[int, int, int]) -> bytes:
    """A PNG of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes(color) * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def make_sound() -> bytes:
    """A second of silence."""
    target = io.BytesIO()
    with wave.open(target, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8000)
        sound.writeframes(b"\x80" * 8000)
    return target.getvalue()


def make_pdf(text: str, action: str = "") -> bytes:
    """A PDF of one page; `action` stands in its catalogue."""
    stream = f"BT /F1 24 Tf 40 100 Td ({text}) Tj ET"
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R {action} >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R "
        "/Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    made, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(made))
        made += f"{number} 0 obj\n{content}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    end = f"xref\n0 6\n0000000000 65535 f \n{table}trailer << /Size 6 /Root 1 0 R >>\nstartxref\n{len(made)}\n%%EOF"
    return made + end.encode()


def make_zip(files: dict[str, bytes], password: str = "") -> bytes:
    target = io.BytesIO()
    if password:
        with pyzipper.AESZipFile(target, "w", encryption=pyzipper.WZ_AES) as archive:
            archive.setpassword(password.encode())
            for name, content in files.items():
                archive.writestr(name, content)
    else:
        with zipfile.ZipFile(target, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    return target.getvalue()

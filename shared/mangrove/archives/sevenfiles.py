"""7z archives: files in folders that are packed as one stream each, the header often packed and encrypted, too."""

from __future__ import annotations

import asyncio
import hashlib
import stat
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from mangrove.archives import codecs, sevenheader
from mangrove.archives.base import Contents, Limits, Member, Source, Wanted
from mangrove.archives.flows import (
    CUT_SHORT,
    PIECE,
    SMALL,
    Budget,
    Flow,
    Metered,
    Ranged,
    Tape,
    Unpacked,
    Window,
    checked,
)
from mangrove.archives.ledger import Ledger
from mangrove.archives.sevenheader import File, Folder, Reader
from mangrove.problems import ArchiveTooLarge, BrokenArchive, WrongArchivePassword

MAGIC = b"7z\xbc\xaf\x27\x1c"
NO_SEVEN = "it is not a 7z archive"
UNKNOWN = "it is packed in a way that is not known here"
LARGEST_HEADER = 1 << 26  # bytes, packed or not
MOST_WRAPS = 4  # headers packed in each other: one may say that it unpacks to itself
MOST_ROUNDS = 22  # of key derivation, as a power of two: 7-Zip itself writes 19
MOST_HASHED = 1 << 31  # bytes of key derivation, which grow with the password: some seconds
TRIED = 1 << 22  # bytes that must unpack before a password counts as right
_AES = b"\x06\xf1\x07\x01"
_COPY = b"\0"
_REPARSE, _UNIX = 0x400, 0x8000

Make = Callable[[bytes], codecs.Decompressor]


def _plain(make: Callable[[], codecs.Decompressor]) -> Make:
    return lambda properties: make()


def _branch(name: str) -> Make:
    return lambda properties: codecs.branch(name)


_CODERS: dict[bytes, Make] = {
    b"\x21": codecs.lzma2,
    b"\x03\x01\x01": codecs.lzma1,
    b"\x03": lambda properties: codecs.delta(properties[0] + 1 if properties else 1),
    b"\x04\x01\x08": _plain(codecs.deflate),
    b"\x04\x01\x09": _plain(codecs.deflate64),
    b"\x04\x02\x02": _plain(codecs.bzip2),
    b"\x04\xf7\x11\x01": _plain(codecs.zstd),
    b"\x04": _branch("X86"),
    b"\x03\x03\x01\x03": _branch("X86"),
    b"\x05": _branch("POWERPC"),
    b"\x03\x03\x02\x05": _branch("POWERPC"),
    b"\x06": _branch("IA64"),
    b"\x03\x03\x04\x01": _branch("IA64"),
    b"\x07": _branch("ARM"),
    b"\x03\x03\x05\x01": _branch("ARM"),
    b"\x08": _branch("ARMTHUMB"),
    b"\x03\x03\x07\x01": _branch("ARMTHUMB"),
    b"\x09": _branch("SPARC"),
    b"\x03\x03\x08\x05": _branch("SPARC"),
}
_SEVERAL = (b"\x04\x02\x02", b"\x04\xf7\x11\x01")  # whose streams may follow each other


class SevenArchive:
    """An open 7z; its header is held, as it must be unpacked whole."""

    comment = ""

    def __init__(self, source: Source, password: str, limits: Limits) -> None:
        self._window = Window(source)
        self._password = password
        self._limits = limits
        self._keys: dict[tuple[bytes, int], bytes] = {}
        self._folders: list[Folder] = []
        self._files: list[File] = []
        self._doubtful = False  # an encrypted header without a checksum: only reading it shows a wrong password
        self.encrypted = False
        self.sequential = False

    async def open(self) -> None:
        """Read the header, and try the password on the smallest beginning of a folder that needs one."""
        raw = await self._header()
        packed = bytes([sevenheader.PACKED_HEADER])
        for _ in range(MOST_WRAPS):
            raw = await self._unpacked_header(raw) if raw[:1] == packed else raw
        if raw:
            await self._take(raw)
        self.sequential = any(len(folder.parts) > 1 for folder in self._folders)
        locked = [folder for folder in self._folders if folder.encrypted and folder.size]
        self.encrypted = self.encrypted or bool(locked)
        if locked:
            await self._try(min(locked, key=lambda folder: folder.parts[0][0] if folder.parts else 0))

    async def _take(self, raw: bytes) -> None:
        try:
            self._folders, self._files = await asyncio.to_thread(_parsed, raw, self._limits.members)
        except BrokenArchive:
            if self._doubtful:
                raise WrongArchivePassword from None
            raise

    async def _header(self) -> bytes:
        head = await Tape(Ranged(self._window, 0, self._window.size)).read(32)
        if len(head) < 32 or head[:6] != MAGIC or head[6] != 0:
            raise BrokenArchive(NO_SEVEN)
        if zlib.crc32(head[12:]) != int.from_bytes(head[8:12], "little"):
            raise BrokenArchive(sevenheader.DAMAGED)
        place, size, crc = (int.from_bytes(head[at:stop], "little") for at, stop in ((12, 20), (20, 28), (28, 32)))
        if size > LARGEST_HEADER:
            raise ArchiveTooLarge("the archive's header is too large")
        if 32 + place + size > self._window.size:
            raise BrokenArchive(CUT_SHORT)
        raw = await Tape(Ranged(self._window, 32 + place, 32 + place + size)).exactly(size)
        if zlib.crc32(raw) != crc:
            raise BrokenArchive(sevenheader.DAMAGED)
        return raw

    async def _unpacked_header(self, raw: bytes) -> bytes:
        reader = Reader(raw)
        reader.byte()
        folders = sevenheader.streams(reader, self._limits.members, 32)
        if len(folders) != 1 or folders[0].size > LARGEST_HEADER or len(folders[0].parts) != 1:
            raise BrokenArchive(sevenheader.DAMAGED)
        folder = folders[0]
        self.encrypted = self.encrypted or folder.encrypted
        self._doubtful = folder.encrypted and folder.parts[0][1] is None
        wrong = WrongArchivePassword if folder.encrypted else BrokenArchive
        flow = await self._unpacked(folder)
        found = bytearray()
        try:
            async with aclosing(checked(flow, *folder.parts[0], _unbounded(), wrong)) as blocks:
                async for block in blocks:
                    found += block
        except BrokenArchive as problem:
            raise WrongArchivePassword if folder.encrypted else problem from None
        return bytes(found)

    async def _try(self, folder: Folder) -> None:
        flow = await self._unpacked(folder)
        size, crc = folder.parts[0] if folder.parts else (folder.size, folder.crc)
        tried = min(size, TRIED)
        try:
            known = crc if tried == size else None
            async with aclosing(checked(flow, tried, known, _unbounded(), WrongArchivePassword)) as blocks:
                async for _ in blocks:
                    pass
        except BrokenArchive:
            raise WrongArchivePassword from None

    async def members(self) -> AsyncGenerator[Member, None]:
        async with aclosing(self._walk()) as walk:
            async for member, _ in walk:
                yield member

    async def _walk(self) -> AsyncGenerator[tuple[Member, File], None]:
        ledger = Ledger(self._limits)
        for count, file in enumerate(self._files):
            if count % 256 == 255:
                await asyncio.sleep(0)
            member = ledger.admit(file.name, file.size, -1, file.modified, file.is_dir, self._refusal(file))
            if member is not None:
                yield member, file

    def _refusal(self, file: File) -> str:
        """Why a file is never unpacked, whatever its name."""
        mode = file.attributes >> 16 if file.attributes & _UNIX else 0
        if stat.S_ISLNK(mode) or file.attributes & _REPARSE:
            return "it is a symbolic link"
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            return "it is a device"
        if file.is_anti:
            return "it is the mark of a removed file"
        if not file.size:
            return ""
        folder = self._folders[file.folder]
        if not folder.chain or any(coder.id not in (_COPY, _AES, *_CODERS) for coder in folder.coders):
            return UNKNOWN
        return ""

    async def contents(self, wanted: Wanted) -> Contents:
        budget = Budget(self._limits, self._window.size)
        index, tape, current = -1, None, -1
        async with aclosing(self._walk()) as walk:
            async for member, file in walk:
                index += 1
                if member.is_dir or member.refused or not wanted(index, member):
                    continue
                if file.size and file.folder != current:
                    tape, current = Tape(await self._unpacked(self._folders[file.folder])), file.folder
                async with aclosing(self._stream(file, tape, budget)) as stream:
                    yield index, member, stream

    async def _stream(self, file: File, tape: Tape | None, budget: Budget) -> AsyncGenerator[bytes, None]:
        if not file.size or tape is None:
            return
        wrong = WrongArchivePassword if self._folders[file.folder].encrypted else BrokenArchive
        await tape.forward(file.start)
        async with aclosing(checked(tape, file.size, file.crc, budget, wrong)) as blocks:
            async for block in blocks:
                yield block

    async def _unpacked(self, folder: Folder) -> Flow:
        """The folder's files, one after the other."""
        if folder.start + folder.packed > self._window.size:
            raise BrokenArchive(CUT_SHORT)
        if not folder.chain:
            raise BrokenArchive(UNKNOWN)
        packed = Ranged(self._window, folder.start, folder.start + folder.packed)
        flow: Flow = packed
        for number in folder.chain:
            coder = folder.coders[number]
            if coder.id == _AES:
                flow = await self._decrypted(flow, coder.properties)
            elif coder.id != _COPY:
                make = _CODERS.get(coder.id)
                if make is None:
                    raise BrokenArchive(UNKNOWN)
                flow = Unpacked(flow, partial(make, coder.properties), coder.id in _SEVERAL)
            flow = _Cut(flow, folder.sizes[number])
        return Metered(flow, packed, self._limits)

    async def _decrypted(self, flow: Flow, properties: bytes) -> Flow:
        if not self._password:
            raise WrongArchivePassword
        power, salt, vector = _aes_properties(properties)
        if (salt, power) not in self._keys:
            self._keys[salt, power] = await asyncio.to_thread(derived, self._password, salt, power)
        return Tape(_Aes(flow, self._keys[salt, power], vector))


def _unbounded() -> Budget:
    return Budget(Limits(size=0, ratio=0), 0)


def _parsed(raw: bytes, most: int) -> tuple[list[Folder], list[File]]:
    reader = Reader(raw)
    if reader.byte() != sevenheader.HEADER:
        raise BrokenArchive(sevenheader.DAMAGED)
    folders: list[Folder] = []
    found: list[File] = []
    for kind in reader.kinds():
        if kind == 0x04:
            folders = sevenheader.streams(reader, most, 32)
        elif kind == 0x05:
            found = sevenheader.files(reader, folders, most)
        else:
            raise BrokenArchive(sevenheader.DAMAGED)
    return folders, found


class _Cut:
    """The first `left` bytes of a flow; BrokenArchive when it has fewer."""

    def __init__(self, flow: Flow, left: int) -> None:
        self._flow = flow
        self._left = left

    async def read(self, most: int) -> bytes:
        if not self._left:
            return b""
        block = await self._flow.read(min(most, self._left))
        if not block:
            raise BrokenArchive(CUT_SHORT)
        self._left -= len(block)
        return block


def _aes_properties(properties: bytes) -> tuple[int, bytes, bytes]:
    """Power of two of the rounds, salt, first vector."""
    first, second = properties[:1], properties[1:2]
    if not first:
        raise BrokenArchive(sevenheader.DAMAGED)
    sizes = second[0] if second and first[0] & 0xC0 else 0
    salted, vectored = (first[0] >> 7) + (sizes >> 4), (first[0] >> 6 & 1) + (sizes & 15)
    power = first[0] & 0x3F
    if len(properties) < 2 + salted + vectored and sizes + (first[0] & 0xC0):
        raise BrokenArchive(sevenheader.DAMAGED)
    if power > MOST_ROUNDS and power != 0x3F:
        raise BrokenArchive("the archive's password takes too long to try")
    return power, properties[2 : 2 + salted], properties[2 + salted : 2 + salted + vectored].ljust(16, b"\0")


def derived(password: str, salt: bytes, power: int) -> bytes:
    """The key of 32 bytes: SHA-256 over 2^power times salt, password in UTF-16 and a counter."""
    unit = salt + password.encode("utf-16-le", errors="surrogatepass")
    if power == 0x3F:
        return unit[:32].ljust(32, b"\0")
    if (len(unit) + 8) << power > MOST_HASHED:
        raise BrokenArchive("the archive's password takes too long to try")
    digest = hashlib.sha256()
    for start in range(0, 1 << power, 4096):
        rounds = range(start, min(start + 4096, 1 << power))
        digest.update(b"".join([unit + number.to_bytes(8, "little") for number in rounds]))
    return digest.digest()


class _Aes:
    """AES in block-chaining mode, whole blocks also where fewer bytes are asked for; the padding is left on."""

    def __init__(self, flow: Flow, key: bytes, vector: bytes) -> None:
        self._tape = Tape(flow)
        self._cipher: CipherContext = Cipher(AES(key), CBC(vector)).decryptor()

    async def read(self, most: int) -> bytes:
        packed = await self._tape.read(min(-(-most // 16) * 16, PIECE))
        if len(packed) % 16:
            packed += await self._tape.exactly(16 - len(packed) % 16)
        if len(packed) <= SMALL:
            return self._cipher.update(packed)
        return await asyncio.to_thread(self._cipher.update, packed)

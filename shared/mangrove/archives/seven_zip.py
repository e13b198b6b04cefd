"""7z archives: files in folders, each packed as one stream. The header itself is often packed and encrypted, too."""

from __future__ import annotations

import asyncio
import hashlib
import stat
import struct
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from mangrove.archives import codecs, seven_zip_header
from mangrove.archives.base import ArchiveLimits, Member, MemberFilter, MemberStreams, Source
from mangrove.archives.readers import (
    CHUNK_SIZE,
    INLINE_SIZE,
    TRUNCATED,
    Budget,
    DecompressReader,
    HeadReader,
    LimitReader,
    RangeReader,
    ReadAhead,
    Reader,
    RecordReader,
    read_verified,
)
from mangrove.archives.seven_zip_header import DAMAGED, SIGNATURE_HEADER_BYTES, HeaderReader, PackedFile, PackedFolder
from mangrove.archives.validation import EntryValidator
from mangrove.core.problems import ArchiveTooLarge, BrokenArchive, WrongArchivePassword

MAGIC = b"7z\xbc\xaf\x27\x1c"
NOT_A_7Z = "it is not a 7z archive"
UNKNOWN_METHOD = "it is packed by an unknown method"
MAX_HEADER_SIZE = 1 << 26  # bytes, packed or not
MAX_NESTED_HEADERS = 4  # a header may claim to unpack to itself
PASSWORD_CHECK_SIZE = 1 << 22  # bytes that must unpack before a password counts as right
_AES = b"\x06\xf1\x07\x01"
_COPY = b"\0"
_REPARSE, _UNIX = 0x400, 0x8000

MakeDecoder = Callable[[bytes], codecs.Decompressor]
MAX_ROUNDS_POWER = 22  # rounds of key derivation, as a power of two: 7-Zip itself writes 19
MAX_HASHED = 1 << 31  # bytes of key derivation, which grow with the password: some seconds
TOO_COSTLY = "the archive's password takes too long to try"
_NO_DERIVATION = 0x3F


def _ignore_properties(make: Callable[[], codecs.Decompressor]) -> MakeDecoder:
    return lambda properties: make()


def _make_branch(name: str) -> MakeDecoder:
    return lambda properties: codecs.make_branch(name)


_CODERS: dict[bytes, MakeDecoder] = {
    b"\x21": codecs.make_lzma2,
    b"\x03\x01\x01": codecs.make_lzma1,
    b"\x03": lambda properties: codecs.make_delta(properties[0] + 1 if properties else 1),
    b"\x04\x01\x08": _ignore_properties(codecs.make_deflate),
    b"\x04\x01\x09": _ignore_properties(codecs.Deflate64Decompressor),
    b"\x04\x02\x02": _ignore_properties(codecs.make_bzip2),
    b"\x04\xf7\x11\x01": _ignore_properties(codecs.make_zstd),
    b"\x04": _make_branch("X86"),
    b"\x03\x03\x01\x03": _make_branch("X86"),
    b"\x05": _make_branch("POWERPC"),
    b"\x03\x03\x02\x05": _make_branch("POWERPC"),
    b"\x06": _make_branch("IA64"),
    b"\x03\x03\x04\x01": _make_branch("IA64"),
    b"\x07": _make_branch("ARM"),
    b"\x03\x03\x05\x01": _make_branch("ARM"),
    b"\x08": _make_branch("ARMTHUMB"),
    b"\x03\x03\x07\x01": _make_branch("ARMTHUMB"),
    b"\x09": _make_branch("SPARC"),
    b"\x03\x03\x08\x05": _make_branch("SPARC"),
}
_CONCATENATED = (b"\x04\x02\x02", b"\x04\xf7\x11\x01")  # methods whose streams may follow each other


class SevenZipArchive:
    """An open 7z archive. Its header is in memory, since it can only be unpacked as a whole."""

    comment = ""

    def __init__(self, source: Source, password: str, limits: ArchiveLimits) -> None:
        self._read_ahead = ReadAhead(source)
        self._password = password
        self._limits = limits
        self._keys: dict[tuple[bytes, int], bytes] = {}
        self._folders: list[PackedFolder] = []
        self._files: list[PackedFile] = []
        self._header_unverified = False  # encrypted without a checksum: only parsing shows a wrong password
        self.encrypted = False
        self.sequential = False

    async def open(self) -> None:
        """Read the header, and check the password with the encrypted folder whose first file is smallest."""
        raw = await self._read_header()
        try:
            await self._parse(await self._unpack_nested(raw))
        except BrokenArchive:
            if self._header_unverified:
                raise WrongArchivePassword from None
            raise
        self.sequential = any(len(folder.parts) > 1 for folder in self._folders)
        encrypted = [folder for folder in self._folders if folder.encrypted and folder.size]
        self.encrypted = self.encrypted or bool(encrypted)
        if encrypted:
            await self._check_password(min(encrypted, key=lambda folder: folder.parts[0][0] if folder.parts else 0))

    async def _unpack_nested(self, raw: bytes) -> bytes:
        packed = bytes([seven_zip_header.PACKED_HEADER])
        for _ in range(MAX_NESTED_HEADERS):
            raw = await self._unpack_header(raw) if raw[:1] == packed else raw
        return raw

    async def _parse(self, raw: bytes) -> None:
        if not raw:
            return
        header = HeaderReader(raw)
        self._folders, self._files = await asyncio.to_thread(_parse_header, header, self._limits.members)
        if self._header_unverified and header.remaining:
            raise WrongArchivePassword  # what it was decrypted to happened to begin like an empty header

    async def _read_header(self) -> bytes:
        reader = RangeReader(self._read_ahead, 0, self._read_ahead.size)
        head = await RecordReader(reader).read_up_to(SIGNATURE_HEADER_BYTES)
        if len(head) < SIGNATURE_HEADER_BYTES or head[:6] != MAGIC or head[6] != 0:
            raise BrokenArchive(NOT_A_7Z)
        if zlib.crc32(head[12:]) != int.from_bytes(head[8:12], "little"):
            raise BrokenArchive(seven_zip_header.DAMAGED)
        offset, size, crc = struct.unpack_from("<QQL", head, 12)
        if size > MAX_HEADER_SIZE:
            raise ArchiveTooLarge("the archive's header is too large")
        start = SIGNATURE_HEADER_BYTES + offset
        if start + size > self._read_ahead.size:
            raise BrokenArchive(TRUNCATED)
        raw = await RecordReader(RangeReader(self._read_ahead, start, start + size)).read_exactly(size)
        if zlib.crc32(raw) != crc:
            raise BrokenArchive(seven_zip_header.DAMAGED)
        return raw

    async def _unpack_header(self, raw: bytes) -> bytes:
        header_reader = HeaderReader(raw)
        header_reader.read_byte()
        folders = seven_zip_header.parse_streams(header_reader, self._limits.members)
        if len(folders) != 1 or folders[0].size > MAX_HEADER_SIZE or len(folders[0].parts) != 1:
            raise BrokenArchive(seven_zip_header.DAMAGED)
        folder = folders[0]
        self.encrypted = self.encrypted or folder.encrypted
        size, crc = folder.parts[0]
        self._header_unverified = self._header_unverified or (folder.encrypted and crc is None)
        error_class = WrongArchivePassword if folder.encrypted else BrokenArchive
        reader = await self._open_folder(folder)
        header, budget = bytearray(), Budget.make_unlimited()
        try:
            async with aclosing(read_verified(reader, size, crc, budget, error_class)) as blocks:
                async for block in blocks:
                    header += block
        except BrokenArchive as problem:
            raise WrongArchivePassword if folder.encrypted else problem from None
        self._header_unverified = self._header_unverified and crc is None
        return bytes(header)

    async def _check_password(self, folder: PackedFolder) -> None:
        reader = await self._open_folder(folder)
        size, crc = folder.parts[0] if folder.parts else (folder.size, folder.crc)
        if size > PASSWORD_CHECK_SIZE:
            size, crc = PASSWORD_CHECK_SIZE, None
        budget = Budget.make_unlimited()
        try:
            async with aclosing(read_verified(reader, size, crc, budget, WrongArchivePassword)) as blocks:
                async for _ in blocks:
                    pass
        except BrokenArchive:
            raise WrongArchivePassword from None

    async def iter_members(self) -> AsyncGenerator[Member, None]:
        async with aclosing(self._iter_entries()) as entries:
            async for member, _ in entries:
                yield member

    async def _iter_entries(self) -> AsyncGenerator[tuple[Member, PackedFile], None]:
        validator = EntryValidator(self._limits)
        for count, file in enumerate(self._files):
            if count % 256 == 255:
                await asyncio.sleep(0)
            refused = self._find_refusal(file)
            member = validator.validate(file.name, file.size, None, file.modified, file.is_dir, refused)
            if member is not None:
                yield member, file

    def _find_refusal(self, file: PackedFile) -> str:
        """Return the reason why a file is never unpacked, whatever its name; `""` if it may be."""
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
            return UNKNOWN_METHOD
        return ""

    async def iter_contents(self, is_wanted: MemberFilter) -> MemberStreams:
        budget = Budget(self._limits, self._read_ahead.size)
        index, reader, current = -1, None, -1
        async with aclosing(self._iter_entries()) as entries:
            async for member, file in entries:
                index += 1
                if member.is_dir or member.refused or not is_wanted(index, member):
                    continue
                if file.size and file.folder != current:
                    reader, current = RecordReader(await self._open_folder(self._folders[file.folder])), file.folder
                async with aclosing(self._read_file(file, reader, budget)) as stream:
                    yield index, member, stream

    async def _read_file(
        self, file: PackedFile, reader: RecordReader | None, budget: Budget
    ) -> AsyncGenerator[bytes, None]:
        if not file.size or reader is None:
            return
        error_class = WrongArchivePassword if self._folders[file.folder].encrypted else BrokenArchive
        await reader.skip_to(file.start)
        async with aclosing(read_verified(reader, file.size, file.crc, budget, error_class)) as blocks:
            async for block in blocks:
                yield block

    async def _open_folder(self, folder: PackedFolder) -> Reader:
        """The unpacked bytes of a folder: its files, one after the other."""
        if folder.start + folder.packed > self._read_ahead.size:
            raise BrokenArchive(TRUNCATED)
        if not folder.chain:
            raise BrokenArchive(UNKNOWN_METHOD)
        packed = RangeReader(self._read_ahead, folder.start, folder.start + folder.packed)
        reader: Reader = packed
        for number in folder.chain:
            coder = folder.coders[number]
            if coder.id == _AES:
                reader = await self._decrypt(reader, coder.properties)
            elif coder.id != _COPY:
                make_codec = _CODERS.get(coder.id)
                if make_codec is None:
                    raise BrokenArchive(UNKNOWN_METHOD)
                reader = DecompressReader(reader, partial(make_codec, coder.properties), coder.id in _CONCATENATED)
            reader = HeadReader(reader, folder.sizes[number])
        return LimitReader(reader, packed, self._limits)

    async def _decrypt(self, reader: Reader, properties: bytes) -> Reader:
        if not self._password:
            raise WrongArchivePassword
        power, salt, vector = parse_aes_properties(properties)
        if (salt, power) not in self._keys:
            self._keys[salt, power] = await asyncio.to_thread(derive_key, self._password, salt, power)
        return RecordReader(AesReader(reader, self._keys[salt, power], vector))


def _parse_header(reader: HeaderReader, max_entries: int) -> tuple[list[PackedFolder], list[PackedFile]]:
    if reader.read_byte() != seven_zip_header.HEADER:
        raise BrokenArchive(seven_zip_header.DAMAGED)
    folders: list[PackedFolder] = []
    files: list[PackedFile] = []
    for kind in reader.iter_properties():
        if kind == 0x04:
            folders = seven_zip_header.parse_streams(reader, max_entries)
        elif kind == 0x05:
            files = seven_zip_header.parse_files(reader, folders, max_entries)
        else:
            raise BrokenArchive(seven_zip_header.DAMAGED)
    return folders, files


def parse_aes_properties(properties: bytes) -> tuple[int, bytes, bytes]:
    """The rounds as a power of two, the salt, the initialisation vector."""
    first, second = properties[:1], properties[1:2]
    if not first:
        raise BrokenArchive(DAMAGED)
    sizes = second[0] if second and first[0] & 0xC0 else 0
    salt_size, vector_size = (first[0] >> 7) + (sizes >> 4), (first[0] >> 6 & 1) + (sizes & 15)
    power = first[0] & 0x3F
    if len(properties) < 2 + salt_size + vector_size and sizes + (first[0] & 0xC0):
        raise BrokenArchive(DAMAGED)
    if power > MAX_ROUNDS_POWER and power != _NO_DERIVATION:
        raise BrokenArchive(TOO_COSTLY)
    return (
        power,
        properties[2 : 2 + salt_size],
        properties[2 + salt_size : 2 + salt_size + vector_size].ljust(16, b"\0"),
    )


def derive_key(password: str, salt: bytes, power: int) -> bytes:
    """Return the key of 32 bytes: SHA-256 over 2^power times salt, password in UTF-16 and a counter."""
    unit = salt + password.encode("utf-16-le", errors="surrogatepass")
    if power == _NO_DERIVATION:
        return unit[:32].ljust(32, b"\0")
    if (len(unit) + 8) << power > MAX_HASHED:
        raise BrokenArchive(TOO_COSTLY)
    digest = hashlib.sha256()
    for start in range(0, 1 << power, 4096):
        rounds = range(start, min(start + 4096, 1 << power))
        digest.update(b"".join([unit + number.to_bytes(8, "little") for number in rounds]))
    return digest.digest()


class AesReader:
    """AES in block-chaining mode. It returns whole blocks, also if fewer bytes are requested; the padding stays."""

    def __init__(self, reader: Reader, key: bytes, vector: bytes) -> None:
        self._reader = RecordReader(reader)
        self._cipher: CipherContext = Cipher(AES(key), CBC(vector)).decryptor()

    async def read(self, max_length: int) -> bytes:
        packed = await self._reader.read(min(-(-max_length // 16) * 16, CHUNK_SIZE))
        if len(packed) % 16:
            packed += await self._reader.read_exactly(16 - len(packed) % 16)
        if len(packed) <= INLINE_SIZE:
            return self._cipher.update(packed)
        return await asyncio.to_thread(self._cipher.update, packed)

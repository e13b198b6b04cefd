"""Names as rclone 1.75.2 encrypts them with the password `pass` and no salt (`rclone backend encode`)."""

from __future__ import annotations

import json

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers.crypt.ciphers import derive_keys
from mangrove.drivers.crypt.encodings import make_encoding
from mangrove.drivers.crypt.names import EncryptedNames
from mangrove.drivers.crypt.options import CryptOptions

KEYS = derive_keys("pass", "")
VERSION = "-v2001-02-03-040506-123"
EXPECTED = [
    ("standard", "base64", "a.txt", "9KDaKmfqZsVZa8QcpkgMtg"),
    ("standard", "base64", f"b{VERSION}.txt", f"Jc6kM2_q5Sho8IHfNgvs6A{VERSION}"),
    ("standard", "base64", f"c{VERSION}.tar.gz", "ZxxjQKrb8Fnuyg9sWsRjwUk8MN5O7tfY8RXu67fsz0U"),
    ("standard", "base64", f"f.tar{VERSION}.gz", f"CWXbzC1xTJ4XIVyIGk9MPg{VERSION}"),
    ("standard", "base64", "e-v2001-99-03-040506-123.txt", "EyMxCfeKFC6ZW2vIbSWzRssyoDXOsljoeSrwYSqLyj8"),
    ("standard", "base32", "a.txt", "uigdkaj7t9jcambbogeaci0cmo"),
    ("standard", "base32", "äöü-日本!1zZ", "ovatu68da1732iq9atb4tk1d2n3s7i2remoega75lud6huiduef0"),
    ("standard", "base32768", "a.txt", "ꃰ峪獝䲬儫啰徬湬臟"),
    ("standard", "base32768", "äöü-日本!1zZ", "詊鸦䟪ᚣ⡚䮝勽皍⣣青⥮腮枧㳾嬱ꃭꁯɟ"),
    ("obfuscate", "", "a.txt", "239.f.yCy"),
    ("obfuscate", "", f"f.tar{VERSION}.gz", f"234.E.SzQ{VERSION}.FY"),
    ("obfuscate", "", "äöü-日本!1zZ", "58.ºÌÒ-旱朸!!8Xx"),
    ("off", "", f"d{VERSION}", f"d{VERSION}.bin"),
]


def make_names(mode: str, encoding: str = "", folders: str = "false") -> EncryptedNames:
    options = {
        "filename_encryption": mode, "filename_encoding": encoding, "directory_name_encryption": folders,
        "encrypted_suffix": ".bin",
    }  # fmt: skip
    return EncryptedNames(CryptOptions.parse(json.dumps(options)), KEYS)


def test_the_keys_are_those_of_the_reference() -> None:
    assert b"".join(KEYS).hex() == (
        "11761c37732dc02d840b00faf594131bfe51a427666fdd6bca3dd1cb3f6e295c3c2dc798be5a01f7600b889411bdc754"
        "b2b0edbf51e6500440a9cdc71b84181dc00a308ca9eb747b26c6d446cba436df"
    )
    assert b"".join(derive_keys("", "salt")) == bytes(80)
    assert derive_keys("pass", "salt") != KEYS


@pytest.mark.parametrize(("mode", "encoding", "name", "encrypted"), EXPECTED)
def test_names_are_rclone_s(mode: str, encoding: str, name: str, encrypted: str) -> None:
    names = make_names(mode, encoding)
    assert names.encrypt(name, is_dir=False) == encrypted
    assert names.decrypt(encrypted, is_dir=False) == name


@pytest.mark.parametrize("mode", ["standard", "obfuscate", "off"])
def test_folders_are_encrypted_if_that_is_wanted(mode: str) -> None:
    plain, encrypted = make_names(mode), make_names(mode, folders="true")
    assert plain.encrypt_path(TreePath("/a/b"), True) == "/a/b"
    assert plain.decrypt("a", True) == "a"
    encrypted_path = encrypted.encrypt_path(TreePath("/a/b"), True)
    assert (encrypted_path == "/a/b") == (mode == "off")
    assert [encrypted.decrypt(name, True) for name in encrypted_path.split("/")[1:]] == ["a", "b"]
    assert (plain.are_alike, encrypted.are_alike) == (False, mode != "off")


@pytest.mark.parametrize(
    ("mode", "encoding", "name"),
    [
        ("standard", "base64", "plain.txt"), ("standard", "base64", "A" * 22), ("standard", "base64", ""),
        ("standard", "base32", "not base32"), ("standard", "base32", "u" * 26), ("standard", "base32768", "ʟꃰ"),
        ("standard", "base32768", "ꃰ峪獝䲬儫啰徬湬一"), ("standard", "base32768", "latin"),
        ("obfuscate", "", "name"), ("obfuscate", "", "x.name"), ("obfuscate", "", "1.a"), ("obfuscate", "", "46.."),
        ("obfuscate", "", "92...\\"), ("off", "", "plain.txt"), ("off", "", ".bin"), ("off", "", "..bin"),
        ("off", "", "...bin"), ("off", "", "a\\b.bin"),
    ],
)  # fmt: skip
def test_what_is_no_encrypted_name_or_no_name_of_the_tree_is_left_out(mode: str, encoding: str, name: str) -> None:
    assert make_names(mode, encoding).decrypt(name, is_dir=False) is None


def test_symbols_replace_control_characters_like_rclone() -> None:
    names, encoding = make_names("standard", "base32768"), make_encoding("base32768")
    texts = {names.encrypt(name, False): name for name in map(str, range(1000))}
    text = next(text for text in texts if any(0x2400 < ord(letter) < 0x2420 for letter in text))
    raw = "".join(chr(ord(letter) - 0x2400) if 0x2400 < ord(letter) < 0x2420 else letter for letter in text)
    assert names.decrypt(raw, False) == names.decrypt(text, False) == texts[text]
    assert encoding.encode(encoding.decode(text)) == text


@pytest.mark.parametrize("encoding", ["base64", "base32", "base32768"])
def test_every_length_comes_back(encoding: str) -> None:
    encoding_tried = make_encoding(encoding)
    for size in range(1, 100):
        for byte in (b"\0", b"\xff", b"\x5a"):
            assert encoding_tried.decode(encoding_tried.encode(byte * size)) == byte * size


@pytest.mark.parametrize(("encoding", "longest"), [("base64", 175), ("base32", 143), ("base32768", 143)])
def test_a_name_that_becomes_too_long_is_refused_by_its_name(encoding: str, longest: int) -> None:
    names = make_names("standard", encoding)
    names.check_length(TreePath("/d/" + "n" * longest), False)
    for length in (longest + 33, 3000):
        with pytest.raises(StorageProblem, match=r"n{100,} is too long"):
            names.check_length(TreePath("/d/" + "n" * length), False)

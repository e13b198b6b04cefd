"""Every entry is validated, whatever its format."""

from __future__ import annotations

import pytest

from mangrove.archives.base import RATIO_EXEMPT, ArchiveLimits, Member
from mangrove.archives.validation import EntryValidator, decode_name, normalize_path
from mangrove.core.problems import ArchiveTooLarge


@pytest.mark.parametrize(
    ("raw", "path"),
    [("a/b", "a/b"), ("./a//b/", "a/b"), ("", ""), ("./", ""), ("a/./b", "a/b"), ("ü/…", "ü/…"), ("a:b", None)],
)
def test_a_path_is_normalised(raw: str, path: str | None) -> None:
    normalized, refused = normalize_path(raw)
    assert (normalized == path and not refused) if path is not None else refused == "its path names a drive"


def test_a_refused_name_is_shown_without_control_characters_and_bounded() -> None:
    assert normalize_path("a\x00b\x1b") == ("a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}",
                                            "its name has a control character")  # fmt: skip
    shown, refused = normalize_path("x" * 1_000_000)
    assert refused == "its path is too long"
    assert len(shown) < 10_000


@pytest.mark.parametrize(
    ("raw", "encoding", "name"),
    [(b"\x84", "IBM437", "ä"), ("ä".encode(), "ibm437", "ä"), (b"\xe4", "latin-1", "ä"), (b"\xff", "UTF-8", "\ufffd"),
     (b"\x84", "no such encoding", "ä"), (b"\x84", "base64", "ä")],
)  # fmt: skip
def test_a_name_is_decoded_as_it_is_set(raw: bytes, encoding: str, name: str) -> None:
    assert decode_name(raw, encoding) == name


def validate(validator: EntryValidator, path: str, size: int | None = 1, packed: int | None = 1) -> Member:
    member = validator.validate(path, size, packed, 0.0, path.endswith("/"))
    assert member is not None
    return member


def test_the_root_is_no_member_but_counts() -> None:
    validator = EntryValidator(ArchiveLimits(members=2))
    assert validator.validate("./", 0, 0, 0.0, True) is None
    assert validate(validator, "a").refused == ""
    with pytest.raises(ArchiveTooLarge, match="more than 2 entries"):
        validate(validator, "b")


def test_a_file_without_a_name_and_a_reason_known_before_are_refused() -> None:
    validator = EntryValidator(ArchiveLimits())
    assert validate(validator, "").refused == "it has no name"
    assert validator.validate("x", 1, 1, 0.0, False, "it is a device") == Member("x", 1, 0.0, False, "it is a device")
    assert validate(validator, "x").refused == "", "what is refused takes no path"


def test_sizes_are_bounded_where_they_are_known() -> None:
    validator = EntryValidator(ArchiveLimits(size=RATIO_EXEMPT * 2, ratio=10))
    assert validate(validator, "large", RATIO_EXEMPT * 2 + 1, None).refused == "it is too large"
    assert validate(validator, "tight", RATIO_EXEMPT + 1, 5).refused == "it unpacks to more than 10 times its size"
    assert validate(validator, "small", RATIO_EXEMPT, 0).refused == ""
    assert validate(validator, "solid", RATIO_EXEMPT + 1, None).refused == ""
    assert validate(validator, "unknown", None, 5) == Member("unknown", None, 0.0, False)
    assert validate(EntryValidator(ArchiveLimits(size=0, ratio=0)), "any", 1 << 60, 1).refused == ""


def test_a_folder_has_no_size_and_may_come_again() -> None:
    validator = EntryValidator(ArchiveLimits())
    assert validate(validator, "d/f").refused == ""
    assert validate(validator, "d/", 5) == Member("d", 0, 0.0, True)
    assert validate(validator, "d/").refused == ""
    assert validate(validator, "d").refused == "an earlier entry has the same path"
    assert validate(validator, "d/f/g").refused == "an earlier file has the path of its folder"

"""User names that look like another's."""

from __future__ import annotations

import pytest

from mangrove.core.problems import BadRequest
from mangrove.identity import names
from mangrove.records.lookalikes import make_skeletons


@pytest.mark.parametrize(
    "name",
    [
        "ann",
        "Ann Smith",
        "ann@example.org",
        "o'neil",
        "Zo\u00eb",
        "\u0418\u0432\u0430\u043d",
        "\u0391\u03bd\u03bd\u03b1",
        "\u5c71\u7530\u30a2\u30f3anna",
        "\ud55c\uae00",
        "\u0639\u0644\u064a \u0661",
        "\u05d3\u05e0\u05d4",
        "ann \U0001f600",
        "#1",
        "\u0928\u0947\u0939\u093e",
        "4b7e-c0ffee",
    ],
)
def test_names_of_all_living_scripts_may_be_given(name: str) -> None:
    names.check(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ann ", "blank"),
        (" ann", "blank"),
        ("ann\u00a0", "blank"),
        ("an\u200bn", "blank"),
        ("an\u00adn", "blank"),
        ("ann\u202e", "blank"),
        ("ann\u3164", "blank"),
        ("ann\ufe0f", "blank"),
        ("ann\u2800", "blank"),
        ("ann\ue000", "blank"),
        ("ann\u0378", "blank"),
        ("a\u00a0b", "blank"),
        ("\u0430nn", "mixes scripts"),
        ("ann\u03bf", "mixes scripts"),
        ("ann\u0661", "mixes scripts"),
        ("\u13aa\u13a0", "everyday use"),
        ("ann\n", "control"),
        ("x" * 256, "too long"),
    ],
)
def test_what_hides_or_mixes_something_is_no_name(name: str, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        names.check(name)


def look_alike(name: str, other: str) -> bool:
    return any(map(str.__eq__, make_skeletons(name), make_skeletons(other)))


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("Ann", "ann"),
        ("\uff41\uff4e\uff4e", "ann"),
        ("\u0430\u043e\u0440", "aop"),
        ("\u0410\u0412\u0421", "abc"),
        ("\u03bf\u03c1", "op"),
        ("adm\u0131n", "admin"),
        ("admln", "adm1n"),
        ("adrnin", "admin"),
        ("b0b", "bOb"),
        ("a  b", "a b"),
        ("\u0251nn", "ann"),
        ("a\u2010b", "a-b"),
        ("Zoe\u0308", "Zo\u00eb"),
        ("stra\u00dfe", "strasse"),
        ("\ufb01n", "fin"),
        ("ann", "ann "),
        ("ann", "\u0430nn"),
        ("\u212anut", "knut"),
    ],
)
def test_names_that_look_alike_do_not_stand_beside_each_other(name: str, other: str) -> None:
    names.check(name)
    assert look_alike(name, other)


@pytest.mark.parametrize(("name", "other"), [("anna", "ann"), ("a b", "ab"), ("Zo\u00eb", "Zoe"), ("user1", "user2")])
def test_other_names_do(name: str, other: str) -> None:
    assert not look_alike(name, other)

"""A driver's options as the record holds them."""

from __future__ import annotations

import json
from typing import Literal

import pytest

from mangrove.core.problems import BadRequest
from mangrove.drivers import registry
from mangrove.drivers.options import Options, option


class Some(Options):
    text: str = option("form default", required=True)
    number: int = option(4)
    flag: bool = option(True)
    choice: Literal["", "one", "two"] = option("one", help="which")
    secret: str = option(secret=True, type="text")


def test_missing_and_null_keys_take_the_zero_value_not_the_forms_default() -> None:
    for addition in ("", "{}", '{"text": null, "number": null, "unknown": {"x": 1}}'):
        assert Some.parse(addition) == Some(text="", number=0, flag=False, choice="", secret="")


def test_what_is_parsed_is_written_with_all_keys() -> None:
    text = Some.parse('{"flag": true, "choice": "two", "gone": 1}').format()
    assert json.loads(text) == {"text": "", "number": 0, "flag": True, "choice": "two", "secret": ""}
    assert Some.parse(text).format() == text


@pytest.mark.parametrize(
    ("addition", "message"),
    [
        ("nonsense", "addition is not valid JSON"), ("[]", "addition is not a JSON object"),
        ("null", "addition is not a JSON object"), ('"x"', "addition is not a JSON object"),
        ("[" * 100_000, "addition is not valid JSON"), ('{"a":' * 100_000, "addition is not valid JSON"),
        ('{"text": 5}', "option text"), ('{"number": "5"}', "option number"), ('{"number": 1.5}', "option number"),
        ('{"number": true}', "option number"), ('{"flag": "true"}', "option flag"), ('{"flag": 1}', "option flag"),
        ('{"number": 18446744073709551616}', "option number"), ('{"text": "\\ud800"}', "addition is not valid JSON"),
        ('{"choice": "three"}', "option choice"), ('{"secret": ["hidden"]}', "option secret"),
    ],
)  # fmt: skip
def test_invalid_options_are_refused_by_name_without_value(addition: str, message: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        Some.parse(addition)
    assert refusal.value.message.startswith(message)
    assert "hidden" not in refusal.value.message


def test_options_in_a_log_do_not_tell_what_is_secret() -> None:
    assert "hidden" not in repr(Some.parse('{"secret": "hidden"}'))


def test_descriptors_show_type_default_and_choices_as_text() -> None:
    rows = [tuple(item) for item in Some.list_form_items()]
    assert rows == [
        ("text", "string", "form default", "", True, ""), ("number", "number", "4", "", False, ""),
        ("flag", "bool", "true", "", False, ""), ("choice", "select", "one", "one,two", False, "which"),
        ("secret", "text", "", "", False, ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "secrets"),
    [
        ("Local", set()), ("S3", {"secret_access_key", "session_token"}), ("FTP", {"password"}),
        ("SFTP", {"private_key", "password", "passphrase"}), ("SMB", {"password"}), ("WebDav", {"password"}),
        ("Crypt", {"password", "salt"}), ("Alias", set()), ("Virtual", set()), ("UrlTree", set()),
    ],
)  # fmt: skip
def test_every_secret_of_a_driver_is_marked(name: str, secrets: set[str]) -> None:
    assert registry.load(name).Options.list_secrets() == secrets

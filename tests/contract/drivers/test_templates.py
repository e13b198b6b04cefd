"""The drivers' forms. Their full text is in forms.txt, made by `make generate`."""

from __future__ import annotations

import json

import pytest

from mangrove.drivers import registry
from mangrove.drivers.capabilities import NO_TRASH

ITEM = {"name": str, "type": str, "default": str, "options": str, "required": bool, "help": str}
CONFIG = {
    "name": str, "local_sort": bool, "only_local": bool, "only_proxy": bool, "no_cache": bool, "no_upload": bool,
    "need_ms": bool, "default_root": str, "alert": str, "only_indices": bool, "prefer_proxy": bool,
}  # fmt: skip


@pytest.mark.parametrize("name", registry.list_names())
def test_a_template_has_every_field_with_its_type(name: str) -> None:
    template = registry.build_template(name)
    assert set(template) == {"common", "additional", "config"}
    assert {key: type(value) for key, value in template["config"].items()} == CONFIG
    for item in template["common"] + template["additional"]:
        assert {key: type(value) for key, value in item.items()} == ITEM
        assert item["type"] in ("string", "number", "text", "select", "bool")
        assert bool(item["options"]) == (item["type"] == "select")
        assert not item["default"] or not item["options"] or item["default"] in item["options"].split(",")
    names = [item["name"] for item in template["common"] + template["additional"]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "only_proxy", "no_cache", "default_root", "others"),
    [
        ("Local", True, True, "/", set()), ("S3", False, False, "/", set()), ("FTP", True, False, "/", set()),
        ("SFTP", True, False, "/", set()), ("SMB", True, True, ".", set()),
        ("WebDav", False, False, "/", {"prefer_proxy"}), ("Alias", False, True, "/", set()),
        ("Crypt", True, True, "/", set()), ("Virtual", True, False, "", {"need_ms"}),
        ("UrlTree", False, True, "", {"only_indices"}),
    ],
)  # fmt: skip
def test_config_objects(name: str, only_proxy: bool, no_cache: bool, default_root: str, others: set[str]) -> None:
    config = registry.build_template(name)["config"]
    alert = NO_TRASH if name in ("UrlTree", "Virtual") else ""
    assert (config["name"], config["alert"], config["default_root"]) == (name, alert, default_root)
    expected = {"local_sort"} | others | {key for key in ("only_proxy", "no_cache") if locals()[key]}
    assert {key for key, value in config.items() if value is True} == expected


@pytest.mark.parametrize("name", registry.list_names())
def test_the_defaults_of_a_form_are_options_the_driver_takes(name: str) -> None:
    kind = registry.load(name).Options
    read = {"number": int, "bool": lambda text: text == "true"}
    typed = {item.name: read.get(item.type, str)(item.default or 0) for item in kind.list_form_items() if item.default}
    assert {key: getattr(kind.parse(json.dumps(typed)), key) for key in typed} == typed

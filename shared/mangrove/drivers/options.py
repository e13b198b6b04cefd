"""A driver's options, which are its form: typed, validated, described; and the options that all drivers share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, Self, dataclass_transform, get_args, get_origin

import orjson

from mangrove.core.codec import DecodeError, dump, find_hints, structure
from mangrove.core.problems import BadRequest
from mangrove.drivers.capabilities import DriverConfig
from mangrove.drivers.context import Redirects

Default = bool | int | str | None


class FormItem(NamedTuple):
    """One option as a form shows it; `options` are the choices of a `select`, separated by commas."""

    name: str
    type: str
    default: str = ""
    options: str = ""
    required: bool = False
    help: str = ""


class OptionMeta(NamedTuple):
    """The facts of an option in the form, beside its annotation. `type` "": the one that the annotation gives."""

    default: Default = None
    type: str = ""
    required: bool = False
    help: str = ""
    secret: bool = False


def option(
    default: Default = None, *, help: str = "", required: bool = False, type: str = "", secret: bool = False
) -> Any:
    """A driver option: `default` None shows as `""`; `type` overrides the one derived from the annotation."""
    meta = OptionMeta(default, type, required, help, secret)
    return field(default=default, metadata={OptionMeta: meta})


@dataclass_transform(kw_only_default=True, field_specifiers=(option,))
class Options:
    """Base of every driver's options; the field order is the form's order.

    Missing keys take the type's zero value, not the form's default; unknown keys are dropped. A field's
    annotation is `str`, `int`, `bool` or a `Literal` of strings (`select`).
    """

    def __init_subclass__(cls) -> None:
        dataclass(kw_only=True, repr=False)(cls)  # not what is secret

    @classmethod
    def parse(cls, addition: str) -> Self:
        """The options in the JSON text `addition`; BadRequest names the option that does not fit."""
        try:
            values = orjson.loads(addition or "{}")
        except orjson.JSONDecodeError as error:
            raise BadRequest(f"addition is not valid JSON: {error}") from None
        if not isinstance(values, dict):
            raise BadRequest("addition is not a JSON object")
        set_values = {name: value for name, value in values.items() if value is not None}
        return cls(**{item.name: item.read(set_values) for item in _list_options(cls)})

    def read_redirects(self) -> Redirects | None:
        """Return the parts of the tree that the storage shows, whose rules count too; None if it holds its own files.

        To be called in a thread: there may be very many.
        """
        return None

    def format(self) -> str:
        """The JSON text that `parse` reads."""
        return dump(self).decode()

    @classmethod
    def list_form_items(cls) -> list[FormItem]:
        """The options as the form shows them, in its order."""
        return [item.make_form_item() for item in _list_options(cls)]

    @classmethod
    def list_secrets(cls) -> frozenset[str]:
        """Names of the options that must never be logged."""
        return frozenset(item.name for item in _list_options(cls) if item.meta.secret)


class _Option(NamedTuple):
    """`kind`: its annotation."""

    name: str
    kind: Any
    meta: OptionMeta

    def read(self, set_values: Mapping[str, Any]) -> bool | int | str:
        """Its value, the zero of its kind where none is given; BadRequest."""
        zero = self.kind() if self.kind in (bool, int) else ""
        try:
            value: bool | int | str = structure(self.kind, set_values.get(self.name, zero))
        except DecodeError as error:
            raise BadRequest(f"option {self.name}: {error}") from None
        return value

    def make_form_item(self) -> FormItem:
        choices = tuple(part for part in get_args(self.kind) if part) if get_origin(self.kind) is Literal else ()
        type = self.meta.type or ("select" if choices else TYPES[self.kind])
        default = _format_default(self.meta.default)
        return FormItem(self.name, type, default, ",".join(choices), self.meta.required, self.meta.help)


TYPES: Mapping[type, str] = {bool: "bool", int: "number", str: "string"}  # of an option's annotation → of a form


class TrashOptions(Options):
    """The options of storages that can keep what is removed, at the end of the form.

    A storage that was made before has none of them: all are 0, so that removals are final.
    """

    trash_days: int = option(
        30, help="Days for which removed entries can be restored from the trash; 0: removals are final"
    )
    trash_max_size: int = option(
        0, help="MiB that the trash may have; beyond that its oldest entries are deleted. 0: no limit"
    )
    keep_versions: int = option(0, help="How many older versions of a file are kept when it is replaced; 0: none")


def _list_options(kind: Any) -> list[_Option]:
    """Return the options in the order of the form: the driver's own first."""
    hints = find_hints(kind)
    common = {item.name for item in fields(TrashOptions)}
    items = sorted(fields(kind), key=lambda item: item.name in common)
    return [_Option(item.name, hints[item.name], item.metadata[OptionMeta]) for item in items]


def _format_default(default: Default) -> str:
    if default is None:
        return ""
    return json.dumps(default) if isinstance(default, bool | int) else default


def list_common_items(config: DriverConfig) -> list[FormItem]:
    """The options that every driver shares, as its `config` makes them."""
    items = [
        FormItem(
            "mount_path",
            "string",
            required=True,
            help="The path you want to mount to, it is unique and cannot be repeated",
        ),
        FormItem("order", "number", help="use to sort"),
        FormItem("remark", "text"),
    ]
    if not config.no_cache:
        items += [
            FormItem("cache_expiration", "number", "30", "", True, "The cache expiration time for this storage"),
            FormItem("custom_cache_policies", "text", help="The cache expiration rules for this storage"),
        ]
    items += [
        *_list_proxy_items(config),
        FormItem("down_proxy_url", "text"),
        FormItem("disable_proxy_sign", "bool", "false", help="Disable sign for Download proxy URL"),
    ]
    if config.local_sort:
        items += [
            FormItem("order_by", "select", options="name,size,modified"),
            FormItem("order_direction", "select", options="asc,desc"),
        ]
    return [
        *items,
        FormItem("extract_folder", "select", options="front,back"),
        FormItem("disable_index", "bool", "false", required=True),
        FormItem("enable_sign", "bool", "false", required=True),
    ]


def _list_proxy_items(config: DriverConfig) -> list[FormItem]:
    """Return the choices of how clients get bytes: through the service, or from the storage itself if it can."""
    if config.only_proxy:
        return [FormItem("webdav_policy", "select", "native_proxy", "use_proxy_url,native_proxy", required=True)]
    web_proxy, policy = ("true", "native_proxy") if config.prefer_proxy else ("", "302_redirect")
    items = [
        FormItem("web_proxy", "bool", web_proxy),
        FormItem("webdav_policy", "select", policy, "302_redirect,use_proxy_url,native_proxy", required=True),
    ]
    if config.proxy_range:
        items.append(FormItem("proxy_range", "bool", help="Need to enable proxy"))
    return items

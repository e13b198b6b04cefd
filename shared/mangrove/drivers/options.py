"""A driver's options and its form: typed, validated, described; and the options that all drivers share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, Self, dataclass_transform, get_args, get_origin

import orjson

from mangrove.core.codec import DecodeError, dump, find_hints, structure
from mangrove.core.problems import BadRequest
from mangrove.drivers.capabilities import DriverProperties
from mangrove.drivers.context import Redirects

Default = bool | int | str | None
TRASH_HELP = "Days for which removed entries can be restored from the trash; 0: removals are final"


class FormItem(NamedTuple):
    """One option as a form shows it; `options` are the choices of a `select`, separated by commas."""

    name: str
    type: str
    default: str = ""
    options: str = ""
    required: bool = False
    help: str = ""


class OptionMeta(NamedTuple):
    """The facts of an option in the form, in addition to its annotation. `type` "": the type of the annotation."""

    default: Default = None
    type: str = ""
    required: bool = False
    help: str = ""
    secret: bool = False


def option(
    default: Default = None, *, help: str = "", required: bool = False, type: str = "", secret: bool = False
) -> Any:
    """Declare a driver option. `default` None shows as `""`; `type` overrides the type derived from the annotation."""
    meta = OptionMeta(default, type, required, help, secret)
    return field(default=default, metadata={OptionMeta: meta})


@dataclass_transform(kw_only_default=True, field_specifiers=(option,))
class Options:
    """Base of every driver's options; the order of the fields is that of the form.

    Missing keys get the type's zero value, not the form's default; unknown keys are dropped. A field's annotation is
    `str`, `int`, `bool` or a `Literal` of strings (`select`).
    """

    def __init_subclass__(cls) -> None:
        dataclass(kw_only=True, repr=False)(cls)  # without secrets

    @classmethod
    def parse(cls, addition: str) -> Self:
        """Return the options in the JSON text `addition`. Raise BadRequest with the name of an invalid option."""
        try:
            values = orjson.loads(addition or "{}")
        except orjson.JSONDecodeError as error:
            raise BadRequest(f"addition is not valid JSON: {error}") from None
        if not isinstance(values, dict):
            raise BadRequest("addition is not a JSON object")
        set_values = {name: value for name, value in values.items() if value is not None}
        return cls(**{item.name: item.read(set_values) for item in _list_options(cls)})

    def read_redirects(self) -> Redirects | None:
        """Return the parts of the tree that the storage shows, whose rules apply too; None if it has its own files.

        Call it in a thread: there may be very many.
        """
        return None

    def format(self) -> str:
        """Return the JSON text that `parse` reads."""
        return dump(self).decode()

    @classmethod
    def list_form_items(cls) -> list[FormItem]:
        """Return the options as the form shows them, in order."""
        return [item.make_form_item() for item in _list_options(cls)]

    @classmethod
    def list_secrets(cls) -> frozenset[str]:
        """Return the names of the options that must never be logged."""
        return frozenset(item.name for item in _list_options(cls) if item.meta.secret)


class _Option(NamedTuple):
    """`kind`: its annotation."""

    name: str
    kind: Any
    meta: OptionMeta

    def read(self, set_values: Mapping[str, Any]) -> bool | int | str:
        """Return its value, the zero of its kind if it is missing. Raise BadRequest."""
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


# the type in a form, by the type of an option's annotation
TYPES: Mapping[type, str] = {bool: "bool", int: "number", str: "string"}


class TrashOptions(Options):
    """The options of storages that can keep what is removed, at the end of the form.

    A storage that was made before has none of them: all are 0, so that removals are final.
    """

    trash_days: int = option(30, help=TRASH_HELP)
    trash_max_size: int = option(
        0, help="MiB that the trash may have; beyond that its oldest entries are deleted. 0: no limit"
    )
    keep_versions: int = option(0, help="How many older versions of a file are kept when it is replaced; 0: none")


def moving_trash_option() -> Any:
    """Declare `trash_days` for storages that move files into the trash one after the other."""
    return option(30, help=f"{TRASH_HELP}. Files are moved into the trash one after the other.")


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


def list_common_items(config: DriverProperties) -> list[FormItem]:
    """Return the options that every driver shares, adapted to its `config`."""
    items = [
        FormItem(
            "mount_path",
            "string",
            required=True,
            help="The path of the storage in the tree; each storage has its own.",
        ),
        FormItem("order", "number", help="Position of the storage among all storages."),
        FormItem("remark", "text"),
    ]
    if not config.no_cache:
        items += [
            FormItem(
                "cache_expiration",
                "number",
                "30",
                required=True,
                help="Minutes for which listings of this storage are cached; 0 disables the cache.",
            ),
            FormItem(
                "custom_cache_policies",
                "text",
                help="Lines `glob:minutes`; the first that matches a path replaces the time above.",
            ),
        ]
    items += [
        *_list_proxy_items(config),
        FormItem("down_proxy_url", "text"),
        FormItem("disable_proxy_sign", "bool", "false", help="Leave out the signature in links to the download proxy."),
    ]
    return [
        *items,
        FormItem("order_by", "select", options="name,size,modified"),
        FormItem("order_direction", "select", options="asc,desc"),
        FormItem("extract_folder", "select", options="front,back"),
        FormItem("disable_index", "bool", "false", required=True),
        FormItem("enable_sign", "bool", "false", required=True),
    ]


def _list_proxy_items(config: DriverProperties) -> list[FormItem]:
    """Return the choices of how clients get bytes: through the service, or directly from the storage if it can."""
    if config.only_proxy:
        return [FormItem("webdav_policy", "select", "native_proxy", "use_proxy_url,native_proxy", required=True)]
    web_proxy, policy = ("true", "native_proxy") if config.prefer_proxy else ("", "302_redirect")
    items = [
        FormItem("web_proxy", "bool", web_proxy),
        FormItem("webdav_policy", "select", policy, "302_redirect,use_proxy_url,native_proxy", required=True),
    ]
    if config.proxy_range:
        help = "Request ranges of a file one by one. It applies to downloads through this service."
        items.append(FormItem("proxy_range", "bool", help=help))
    return items

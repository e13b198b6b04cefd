"""A driver's options, which are its form: typed, validated, described; and the options that all drivers share."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from mangrove.drivers.driver_config import DriverConfig
from mangrove.problems import BadRequest

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
    """What the form knows of an option beside its annotation. `type` "": the one that the annotation gives."""

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
    return Field(default=default, json_schema_extra={**meta._asdict()})


class Options(BaseModel):
    """Base of every driver's options; the field order is the form's order.

    Missing keys take the type's zero value, not the form's default; unknown keys are dropped. A field's
    annotation is `str`, `int`, `bool` or a `Literal` of strings (`select`).
    """

    model_config = ConfigDict(extra="ignore", strict=True, defer_build=True)

    @classmethod
    def parse(cls, addition: str) -> Options:
        """The options in the JSON text `addition`; BadRequest names the option that does not fit."""
        try:
            values = json.loads(addition or "{}")
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"addition is not valid JSON: {error}") from None
        if not isinstance(values, dict):
            raise BadRequest("addition is not a JSON object")
        zeros = {name: _get_zero_value(spec) for name, spec in cls.model_fields.items()}
        given = {name: values[name] for name in zeros if values.get(name) is not None}
        try:
            return cls.model_validate(zeros | given)
        except ValidationError as error:
            first = error.errors()[0]
            raise BadRequest(f"option {'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    @classmethod
    def list_form_items(cls) -> list[FormItem]:
        """The options as the form shows them, in its order."""
        return [_make_form_item(name, spec) for name, spec in cls.model_fields.items()]

    @classmethod
    def list_secrets(cls) -> frozenset[str]:
        """Names of the options that must never be logged."""
        return frozenset(name for name, spec in cls.model_fields.items() if _get_meta(spec).secret)


def _get_meta(spec: FieldInfo) -> OptionMeta:
    extra: Any = spec.json_schema_extra
    return OptionMeta(**extra) if isinstance(extra, dict) else OptionMeta()


def _get_choices(spec: FieldInfo) -> tuple[str, ...]:
    return tuple(part for part in get_args(spec.annotation) if part) if get_origin(spec.annotation) is Literal else ()


def _get_zero_value(spec: FieldInfo) -> bool | int | str:
    if spec.annotation is bool:
        return False
    return 0 if spec.annotation is int else ""


def _get_type(spec: FieldInfo) -> str:
    if _get_choices(spec):
        return "select"
    if spec.annotation is bool:
        return "bool"
    return "number" if spec.annotation is int else "string"


def _format_default(default: Default) -> str:
    if default is None:
        return ""
    return json.dumps(default) if isinstance(default, bool | int) else default


def _make_form_item(name: str, spec: FieldInfo) -> FormItem:
    meta = _get_meta(spec)
    return FormItem(
        name,
        meta.type or _get_type(spec),
        _format_default(meta.default),
        ",".join(_get_choices(spec)),
        meta.required,
        meta.help,
    )


def list_common_items(config: DriverConfig) -> list[FormItem]:
    """The options that every driver shares, as its `config` makes them (behaviour 8.5)."""
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
    """How clients get the bytes: through the service, or from the storage itself where that is possible."""
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

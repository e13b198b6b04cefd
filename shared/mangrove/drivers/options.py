"""A driver's options, which are its form: typed, validated, described; and the form's part that all share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from mangrove.problems import BadRequest


@dataclass(frozen=True, slots=True)
class DriverConfig:
    """The `config` object of a driver's template, plus `check_status`: refuse every verb while start-up failed."""

    local_sort: bool = True
    only_proxy: bool = False
    no_cache: bool = False
    no_upload: bool = False
    need_ms: bool = False
    default_root: str = ""
    alert: str = ""
    only_local: bool = False
    only_indices: bool = False
    prefer_proxy: bool = False
    proxy_range: bool = False
    check_status: bool = False
    direct_lookup: bool = False  # `stat` is its own question, not a look into the parent's listing


def option(default: Any = None, *, help: str = "", required: bool = False, type: str = "", secret: bool = False) -> Any:
    """A driver option: `default` None shows as `""`; `type` overrides the one derived from the annotation."""
    from pydantic import Field

    extra = {"help": help, "required": required, "type": type, "secret": secret, "default": default}
    return Field(default=default, json_schema_extra=extra)


class Options(BaseModel):
    """Base of every driver's options; the field order is the form's order.

    Missing keys take the type's zero value, not the form's default; unknown keys are dropped. A field's
    annotation is `str`, `int`, `bool` or a `Literal` of strings (`select`).
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    @classmethod
    def parse(cls, addition: str) -> Options:
        """The options in the JSON text `addition`; BadRequest names the option that does not fit."""
        try:
            values = json.loads(addition or "{}")
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"addition is not valid JSON: {error}") from None
        if not isinstance(values, dict):
            raise BadRequest("addition is not a JSON object")
        zero = {name: _zero(spec) for name, spec in cls.model_fields.items()}
        known = {name: values[name] for name in zero if values.get(name) is not None}
        try:
            return cls.model_validate(zero | known)
        except ValidationError as error:
            first = error.errors()[0]
            raise BadRequest(f"option {'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    @classmethod
    def items(cls) -> list[dict[str, Any]]:
        """The option descriptors: `{name, type, default, options, required, help}` each."""
        return [_descriptor(name, spec) for name, spec in cls.model_fields.items()]

    @classmethod
    def secrets(cls) -> frozenset[str]:
        """Names of the options that must never be logged."""
        return frozenset(name for name, spec in cls.model_fields.items() if _extra(spec)["secret"])


def _extra(spec: FieldInfo) -> dict[str, Any]:
    blank = {"help": "", "required": False, "type": "", "secret": False, "default": None}
    return blank | (spec.json_schema_extra if isinstance(spec.json_schema_extra, dict) else {})


def _choices(spec: FieldInfo) -> tuple[str, ...]:
    return tuple(part for part in get_args(spec.annotation) if part) if get_origin(spec.annotation) is Literal else ()


def _zero(spec: FieldInfo) -> Any:
    if spec.annotation is bool:
        return False
    return 0 if spec.annotation is int else ""


def _descriptor(name: str, spec: FieldInfo) -> dict[str, Any]:
    extra = _extra(spec)
    choices = _choices(spec)
    kind = (
        "select" if choices else "bool" if spec.annotation is bool else "number" if spec.annotation is int else "string"
    )
    default = extra["default"]
    text = "" if default is None else json.dumps(default) if isinstance(default, bool | int) else str(default)
    return {
        "name": name,
        "type": extra["type"] or kind,
        "default": text,
        "options": ",".join(choices),
        "required": extra["required"],
        "help": extra["help"],
    }


def common_items(config: DriverConfig) -> list[dict[str, Any]]:
    """The option descriptors every driver shares, as its `config` makes them (behaviour 8.5)."""
    cached = not config.no_cache
    proxy = [("webdav_policy", "select", "native_proxy", "use_proxy_url,native_proxy", True, "")]
    if not config.only_proxy:
        web, policy = ("true", "native_proxy") if config.prefer_proxy else ("", "302_redirect")
        choices = "302_redirect,use_proxy_url,native_proxy"
        proxy = [("web_proxy", "bool", web, "", False, ""), ("webdav_policy", "select", policy, choices, True, "")]
    if config.proxy_range and not config.only_proxy:
        proxy.append(("proxy_range", "bool", "", "", False, "Need to enable proxy"))
    rows: Iterable[tuple[str, str, str, str, bool, str] | None] = (
        ("mount_path", "string", "", "", True, "The path you want to mount to, it is unique and cannot be repeated"),
        ("order", "number", "", "", False, "use to sort"),
        ("remark", "text", "", "", False, ""),
        ("cache_expiration", "number", "30", "", True, "The cache expiration time for this storage")
        if cached
        else None,
        ("custom_cache_policies", "text", "", "", False, "The cache expiration rules for this storage")
        if cached
        else None,
        *proxy,
        ("down_proxy_url", "text", "", "", False, ""),
        ("disable_proxy_sign", "bool", "false", "", False, "Disable sign for Download proxy URL"),
        ("order_by", "select", "", "name,size,modified", False, "") if config.local_sort else None,
        ("order_direction", "select", "", "asc,desc", False, "") if config.local_sort else None,
        ("extract_folder", "select", "", "front,back", False, ""),
        ("disable_index", "bool", "false", "", True, ""),
        ("enable_sign", "bool", "false", "", True, ""),
    )
    keys = ("name", "type", "default", "options", "required", "help")
    return [dict(zip(keys, row, strict=True)) for row in rows if row]

"""Setting values: typed for the service, as records for the wire."""

from __future__ import annotations

import json
import secrets
import string
import uuid
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Any

from mangrove.configuration import setting_texts
from mangrove.configuration.table import BY_KEY, DEPRECATED, PUBLIC, READONLY, TABLE, Setting
from mangrove.core.integers import parse_integer
from mangrove.core.paths import TreePath
from mangrove.core.problems import BadRequest

MOST_SMALL_FILES = 32
_LETTERS = string.ascii_letters + string.digits


def parse_address(text: str) -> tuple[str, int] | None:
    """Host and port of `host:port` or `[host]:port`; None for an empty text. ValueError."""
    if not text:
        return None
    host, _, number = text.rpartition(":")
    port = parse_integer(number)
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not host or port is None or not 0 < port < 65536:
        raise ValueError(f'"{text[:40]}" is no address like 127.0.0.1:5222')
    return host, port


def _asks_for_absent(key: str, value: str) -> bool:
    setting = BY_KEY.get(key)
    return setting is not None and setting.asks_for_absent(value)


class Settings(Mapping[str, str]):
    """All values of one snapshot, defaults filled in; typed properties for what the service itself reads.

    What an older version stored to switch on what is not there counts as not stored: nobody is told that it is.
    """

    def __init__(self, stored: Mapping[str, str]) -> None:
        self._stored = dict(stored)
        shown = {key: value for key, value in stored.items() if not _asks_for_absent(key, value)}
        self._values = {setting.key: setting.default for setting in TABLE} | shown
        self._values["version"] = BY_KEY["version"].default

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def replace(self, keys: Collection[str], stored: Mapping[str, str]) -> Settings:
        """These values, with those of `keys` as they are stored now, or no more."""
        return Settings({key: value for key, value in self._stored.items() if key not in keys} | dict(stored))

    def _is_on(self, key: str) -> bool:
        """A bool setting."""
        return self._values[key] in ("true", "1")

    def _parse_number(self, key: str) -> int:
        """A number setting; 0 for an empty one."""
        return int(self._values[key] or 0)

    def _parse_speed(self, key: str) -> int | None:
        """Bytes a second, of a setting in KiB; None when that is negative, 0 or empty."""
        kibibytes = self._parse_number(key)
        return kibibytes << 10 if kibibytes > 0 else None

    def _parse_words(self, key: str) -> frozenset[str]:
        """A comma-separated list, lower-case."""
        return frozenset(part.strip().lower() for part in self._values[key].split(",") if part.strip())

    @cached_property
    def multipart_enabled(self) -> bool:
        return self._is_on("multipart_enabled")

    @cached_property
    def multipart_chunk_size(self) -> int:
        """Bytes of a chunk, of a setting in MiB."""
        return max(self._parse_number("multipart_chunk_size"), 1) << 20

    @cached_property
    def token(self) -> str:
        """The permanent token; `""` means there is none."""
        return self._values["token"]

    @cached_property
    def link_salt(self) -> str:
        """Part of the key of links; `""` while the token is one from before links had a key of their own."""
        return self._values["link_salt"]

    @cached_property
    def sign_all(self) -> bool:
        return self._is_on("sign_all")

    @cached_property
    def link_follows_user(self) -> bool:
        """Whether a link is good only as long as the user it was made for may read what it opens."""
        return self._is_on("link_follows_user")

    @cached_property
    def link_expiration(self) -> int:
        """Hours; 0 for never."""
        return int(self._values["link_expiration"] or 0)

    @cached_property
    def hide_storage_details(self) -> bool:
        return self._is_on("hide_storage_details")

    @cached_property
    def ignore_system_files(self) -> bool:
        return self._is_on("ignore_system_files")

    @cached_property
    def type_codes(self) -> dict[str, int]:
        """Type code by extension; of two settings that name one, the first of audio, video, image, text wins."""
        found: dict[str, int] = {}
        for code, key in ((3, "audio_types"), (2, "video_types"), (5, "image_types"), (4, "text_types")):
            for extension in self._parse_words(key):
                found.setdefault(extension, code)
        return found

    @cached_property
    def text_types(self) -> frozenset[str]:
        return self._parse_words("text_types")

    @cached_property
    def proxy_types(self) -> frozenset[str]:
        return self._parse_words("proxy_types")

    @cached_property
    def proxy_ignore_headers(self) -> frozenset[str]:
        """Names of request headers that no upstream server is sent, in lower case."""
        return self._parse_words("proxy_ignore_headers")

    @cached_property
    def hide_storage_details_in_manage_page(self) -> bool:
        return self._is_on("hide_storage_details_in_manage_page")

    @cached_property
    def filename_char_mapping(self) -> Mapping[str, str]:
        """What a name of a storage may hold and no path can: what stands for it where the name is shown."""
        mapping: dict[str, Any] = json.loads(self._values["filename_char_mapping"] or "{}")
        return {old: new for old, new in mapping.items() if old and isinstance(new, str)}

    @cached_property
    def forward_direct_link_params(self) -> bool:
        return self._is_on("forward_direct_link_params")

    @cached_property
    def ignore_direct_link_params(self) -> frozenset[str]:
        """Names of query parameters that are never passed on."""
        return frozenset(name.strip() for name in self._values["ignore_direct_link_params"].split(","))

    @cached_property
    def privacy_regs(self) -> str:
        """RE2 patterns, one a line, of texts that failure messages must not show."""
        return self._values["privacy_regs"]

    @cached_property
    def robots_txt(self) -> str:
        return self._values["robots_txt"]

    @cached_property
    def site_title(self) -> str:
        return self._values["site_title"]

    @cached_property
    def logo(self) -> str:
        """Addresses of pictures, one a line."""
        return self._values["logo"]

    @cached_property
    def favicon(self) -> str:
        return self._values["favicon"]

    @cached_property
    def non_efs_zip_encoding(self) -> str:
        """The encoding of names in zip files that do not say theirs."""
        return self._values["non_efs_zip_encoding"]

    @cached_property
    def archive_max_members(self) -> int:
        """Entries of an archive; 0 for no bound."""
        return self._parse_number("archive_max_members")

    @cached_property
    def archive_max_size(self) -> int:
        """Bytes that an archive may unpack to; 0 for no bound."""
        return self._parse_number("archive_max_size") << 20

    @cached_property
    def archive_max_ratio(self) -> int:
        """Times its packed size that an archive may unpack to; 0 for no bound."""
        return self._parse_number("archive_max_ratio")

    @cached_property
    def sftp_address(self) -> tuple[str, int] | None:
        """Host and port at which SFTP is served; None for nowhere."""
        return parse_address(self._values["sftp_listen"])

    @cached_property
    def sftp_disable_password_login(self) -> bool:
        return self._is_on("sftp_disable_password_login")

    @cached_property
    def webdav_enabled(self) -> bool:
        return self._is_on("webdav_enabled")

    @cached_property
    def webdav_allow_http(self) -> bool:
        return self._is_on("webdav_allow_http")

    @cached_property
    def webdav_infinite_depth(self) -> bool:
        return self._is_on("webdav_infinite_depth")

    @cached_property
    def is_durable(self) -> bool:
        """Whether what is stored has to survive a power cut before that is said."""
        return self._values["durability"] == "file"

    @cached_property
    def small_file_threads_num(self) -> int:
        """How many small files a transfer has under way at once, from 1 to 32."""
        return min(max(self._parse_number("small_file_threads_num"), 1), MOST_SMALL_FILES)

    @cached_property
    def verify_moves(self) -> bool:
        return self._is_on("verify_moves")

    @cached_property
    def max_client_download_speed(self) -> int | None:
        """Bytes a second to all HTTP clients; None for no limit. The other three are of the same kind."""
        return self._parse_speed("max_client_download_speed")

    @cached_property
    def max_client_upload_speed(self) -> int | None:
        return self._parse_speed("max_client_upload_speed")

    @cached_property
    def max_server_download_speed(self) -> int | None:
        return self._parse_speed("max_server_download_speed")

    @cached_property
    def max_server_upload_speed(self) -> int | None:
        return self._parse_speed("max_server_upload_speed")

    @cached_property
    def task_retention_days(self) -> int:
        return self._parse_number("task_retention_days")

    @cached_property
    def offline_download_max_size(self) -> int:
        """Bytes of one downloaded file; 0 for no bound."""
        return self._parse_number("offline_download_max_size") << 20

    @cached_property
    def offline_download_allowed_hosts(self) -> str:
        """Host names, addresses and networks, separated by commas or lines."""
        return self._values["offline_download_allowed_hosts"]

    @cached_property
    def offline_download_ready(self) -> frozenset[str]:
        """Names of the download tools that answered when they were set up."""
        return frozenset(name for name in self._values["offline_download_ready"].split(",") if name)

    @cached_property
    def aria2_uri(self) -> str:
        return self._values["aria2_uri"]

    @cached_property
    def aria2_secret(self) -> str:
        return self._values["aria2_secret"]

    @cached_property
    def aria2_http(self) -> bool:
        return self._is_on("aria2_http")

    @cached_property
    def qbittorrent_url(self) -> str:
        return self._values["qbittorrent_url"]

    @cached_property
    def qbittorrent_seedtime(self) -> int:
        """Minutes; negative for ever."""
        return self._parse_number("qbittorrent_seedtime")

    @cached_property
    def has_search_index(self) -> bool:
        """Whether names are found by an index; whichever of the known engines is chosen, it is ours."""
        return self._values["search_index"] not in ("", "none")

    @cached_property
    def corrects_index(self) -> bool:
        """Whether a listing that is read anyway corrects the index."""
        return self.has_search_index and self._is_on("auto_update_index")

    @cached_property
    def marks_changes(self) -> bool:
        """Whether what this service changes itself is found from then on."""
        return self.has_search_index and (self._is_on("auto_update_index") or self._is_on("handle_hook_after_writing"))

    @cached_property
    def ignore_paths(self) -> tuple[TreePath, ...]:
        """Folders of the tree that are not indexed, nor what is below them."""
        return tuple(map(TreePath, filter(None, map(str.strip, self._values["ignore_paths"].splitlines()))))

    @cached_property
    def max_index_depth(self) -> int:
        """How deep in the tree names are indexed, 1 for those right below its root; 0 for no bound."""
        return self._parse_number("max_index_depth")

    def task_workers(self, setting: str) -> int:
        """How many tasks run at once, by the key of a `…_task_threads_num` setting; 0 pauses."""
        return self._parse_number(setting)

    def get_public(self) -> dict[str, str]:
        """The values that everybody may see."""
        shown = (PUBLIC, READONLY)
        return {setting.key: self._values[setting.key] for setting in TABLE if setting.flag in shown}

    def make_records(self, groups: frozenset[int] | None = None) -> list[dict[str, Any]]:
        """The wire records, of some groups or all, in the order of the table; unknown keys last."""
        rows = [self.make_record(key) for key in self._values]
        return rows if groups is None else [row for row in rows if row["group"] in groups]

    def make_record(self, key: str) -> dict[str, Any]:
        """One wire record; BadRequest for an unknown key."""
        if key not in self._values:
            raise BadRequest("record not found")
        return make_record(key, self._values[key])


_POSITIONS = {setting.key: index for index, setting in enumerate(TABLE)}


def make_record(key: str, value: str) -> dict[str, Any]:
    """The record of a key; one this version does not know is shown as deprecated."""
    setting = BY_KEY.get(key)
    if setting is None:
        return {
            "key": key, "value": value, "help": "", "type": "string", "options": "", "group": 0,
            "flag": DEPRECATED, "index": 0,
        }  # fmt: skip
    return {
        "key": key, "value": value, "help": _make_help(setting), "type": setting.type, "options": setting.options,
        "group": setting.group, "flag": setting.flag, "index": _POSITIONS[key],
    }  # fmt: skip


def make_default_records(groups: frozenset[int] | None = None) -> list[dict[str, Any]]:
    """The table's own records, with a fresh token each time."""
    rows = [make_record(one.key, make_token() if one.key == "token" else one.default) for one in TABLE]
    return rows if groups is None else [row for row in rows if row["group"] in groups]


def make_token() -> str:
    """A permanent token: `mangrove-`, a UUID, 64 letters and digits."""
    return f"mangrove-{uuid.uuid4()}{''.join(secrets.choice(_LETTERS) for _ in range(64))}"


def make_link_salt() -> str:
    """A salt for the key of links."""
    return secrets.token_urlsafe(16)


def _make_help(setting: Setting) -> str:
    """What a setting is for, and that this version does not have it."""
    text = setting.help or setting_texts.TEXTS[setting.key]
    return f"{text} This version has no {setting.absent}." if setting.absent else text

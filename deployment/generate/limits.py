"""The reference page of the bounds of all inputs, from the constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby

from deployment.generate import Files
from mangrove.configuration.values import Settings

HEAD = """# Limits

Every input has a bound. A request above one is refused with a message that names it, and changes nothing.
The settings that bound work and speed are in [settings](settings.md). This page is derived from the code.
A bound that is called `setting:…` can be changed; the table has its default.
"""
CONSTANT_PACKAGE = "mangrove."
SETTING = "setting:"
UNITS = {"bytes": (" bytes", " KiB", " MiB", " GiB"), "per second": (" bytes/s", " KiB/s", " MiB/s", " GiB/s")}


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound of an input."""

    protocol: str
    input: str
    constant: str  # `module:NAME`, below `mangrove`; `module:Class.field` for the default of a dataclass; `setting:key`
    unit: str  # bytes, bytes per second, seconds, characters, or the counted items
    scope: str  # the owner of the bound

    def read(self) -> int | float:
        """Return the value. Raise AttributeError if there is no such constant."""
        if self.constant.startswith(SETTING):
            return getattr(Settings({}), self.constant.removeprefix(SETTING))  # type: ignore[no-any-return]
        module, _, name = self.constant.partition(":")
        owner = import_module(CONSTANT_PACKAGE + module)
        *owners, field = name.split(".")
        for part in owners:
            owner = getattr(owner, part).__dataclass_fields__
            return owner[field].default  # type: ignore[no-any-return]
        return getattr(owner, field)  # type: ignore[no-any-return]


def _make(protocol: str, *rows: tuple[str, str, str, str]) -> list[Limit]:
    return [Limit(protocol, *row) for row in rows]


CONNECTIONS = "standalone.connections"
PROVIDERS = "identity.identity_providers"
LIMITS = "core.limits"
SFTP = "protocols.sftp"
DAV = "protocols.webdav"
SHARING = "tree.sharing.administration"
OPEN_UPLOADS = "records.open_uploads"
LIST: Sequence[Limit] = [
    *_make(
        "HTTP connections",
        ("connections", f"{CONNECTIONS}:ConnectionLimits.connections", "connections", "all processes"),
        ("connections", f"{CONNECTIONS}:ConnectionLimits.per_source", "connections", "address, or IPv6 network"),
        ("head of a request", f"{CONNECTIONS}:ConnectionLimits.head_bytes", "bytes", "request"),
        ("time of a head", f"{CONNECTIONS}:ConnectionLimits.head_seconds", "seconds", "request"),
        ("lowest speed of a body or an answer", f"{CONNECTIONS}:ConnectionLimits.slowest", "per second", "connection"),
        ("time over which that is measured", f"{CONNECTIONS}:ConnectionLimits.window", "seconds", "connection"),
        ("requests that wait (pipelining)", f"{CONNECTIONS}:MAX_WAITING_REQUESTS", "requests", "connection"),
    ),
    *_make(
        "HTTP requests",
        ("JSON body", "web.framework:MAX_JSON_BYTES", "bytes", "request"),
        ("JSON body before the sign-in is known", "web.framework:MAX_UNGATED_JSON_BYTES", "bytes", "request"),
        ("values of a JSON body", "web.framework:MAX_JSON_VALUES", "values", "request"),
        ("large requests at once", f"{LIMITS}:LARGE_REQUEST_CONCURRENCY", "requests", "all processes"),
        ("large requests at once", f"{LIMITS}:LARGE_REQUESTS_PER_CALLER", "requests", "caller"),
        ("path", "core.paths:MAX_PATH_BYTES", "bytes", "path"),
        ("name", "core.paths:MAX_NAME_BYTES", "bytes", "name"),
        ("names", "tree.operations.plans:MAX_NAMES_PER_REQUEST", "names", "request"),
        ("pattern and its template", "tree.operations.transfers:MAX_PATTERN_LENGTH", "characters", "request"),
        ("ranges", "web.ranges:MAX_RANGES", "ranges", "request"),
        ("key of a repeatable request", "web.request_keys:MAX_KEY_LENGTH", "characters", "request"),
        ("time for which a key is remembered", "records.request_keys:ANSWER_SECONDS", "seconds", "request"),
        ("answer that a key repeats, compressed", "records.request_keys:MAX_STORED_BYTES", "bytes", "request"),
        ("`X-Request-Id` that is used", "core.telemetry:MAX_REQUEST_ID_LENGTH", "characters", "request"),
        ("head of a part of a form", "web.form_parts:MAX_PART_HEADER_BYTES", "bytes", "part"),
    ),
    *_make(
        "Sign-in and accounts",
        ("user name", "identity.names:MAX_NAME_LENGTH", "characters", "account"),
        ("password", "identity.passwords:MAX_PASSWORD_LENGTH", "characters", "sign-in"),
        ("password hashes at once", f"{LIMITS}:SIGN_IN_CONCURRENCY", "sign-ins", "process"),
        ("sign-ins that wait", f"{LIMITS}:MAX_WAITING_SIGN_INS", "sign-ins", "process"),
        ("failures of a source at an account", "identity.lockout:MAX_FAILURES_PER_PAIR", "failures", "lock-out window"),
        ("failures of a source", "identity.lockout:MAX_FAILURES_PER_SOURCE", "failures", "lock-out window"),
        ("failures at an account", "identity.lockout:MAX_FAILURES_PER_SUBJECT", "failures", "lock-out window"),
        (
            "wrong folder passwords of a source",
            "identity.lockout:MAX_FOLDER_FAILURES_PER_SOURCE", "failures", "lock-out window",
        ),
        ("public key", "identity.keys:MAX_KEY_LENGTH", "characters", "key"),
        ("public keys", "identity.keys:MAX_KEYS_PER_USER", "keys", "user"),
        ("sign-ins elsewhere at once", f"{LIMITS}:REMOTE_SIGN_IN_CONCURRENCY", "sign-ins", "process"),
        ("sign-ins elsewhere at once", f"{LIMITS}:REMOTE_SIGN_INS_PER_CALLER", "sign-ins", "address"),
        ("answer of an identity provider", f"{PROVIDERS}:PROVIDER_TIMEOUT_SECONDS", "seconds", "request"),
        ("answer of an identity provider", f"{PROVIDERS}:MAX_PROVIDER_ANSWER_BYTES", "bytes", "request"),
        ("values of a claim", "identity.claims:MAX_GROUP_CLAIM_VALUES", "values", "sign-in"),
        ("sign-in at an identity provider", "identity.single_sign_on:STATE_SECONDS", "seconds", "sign-in"),
        ("answer of a directory", "identity.directory:DIRECTORY_TIMEOUT_SECONDS", "seconds", "request"),
        ("passkeys", "identity.passkeys:MAX_PASSKEYS_PER_USER", "passkeys", "user"),
        ("title of a passkey", "identity.passkeys:MAX_TITLE_LENGTH", "characters", "passkey"),
        ("part of a passkey", "web.sign_in:MAX_CREDENTIAL_CHARACTERS", "characters", "request"),
        ("answer to a passkey's challenge", "identity.passkeys:CHALLENGE_SECONDS", "seconds", "challenge"),
        (
            "challenges of sign-ins",
            "records.login_challenges:MAX_CHALLENGES_PER_CLIENT", "challenges", "client and ten minutes",
        ),
        ("bytes of a file by MCP", "protocols.mcp.reading:MAX_FILE_BYTES", "bytes", "call"),
        ("rows of a folder by MCP", "protocols.mcp.reading:MAX_ROWS_PER_CALL", "rows", "call"),
        ("hits of a search by MCP", "protocols.mcp.reading:MAX_HITS_PER_CALL", "hits", "call"),
        ("tasks listed by MCP", "protocols.mcp.reading:MAX_TASKS_PER_KIND", "tasks", "kind"),
        ("folders listed by MCP", "protocols.mcp.messages:MAX_LISTED_RESOURCES", "folders", "call"),
        ("rows of a folder's resource", "protocols.mcp.messages:MAX_ROWS_PER_RESOURCE", "rows", "call"),
        ("text in an argument of MCP", "protocols.mcp.tools:MAX_TEXT_LENGTH", "characters", "argument"),
        ("time of a plan", "protocols.mcp.changing:PLAN_SECONDS", "seconds", "plan"),
        ("plan", "protocols.mcp.changing:MAX_PLAN_LENGTH", "characters", "plan"),
        ("groups", "identity.groups:MAX_GROUPS", "groups", "service"),
        ("members", "identity.groups:MAX_MEMBERS_PER_GROUP", "users", "group"),
        ("folders", "identity.groups:MAX_FOLDERS_PER_GROUP", "folders", "group"),
        ("paths of all folders", "identity.groups:MAX_FOLDER_BYTES_PER_GROUP", "bytes", "group"),
        ("name of a group", "identity.groups:MAX_NAME_LENGTH", "characters", "group"),
        ("days of the audit", "records.audit:MAX_AUDIT_DAYS", "days", "service"),
        ("actions read for a page of the audit", "records.audit:MAX_AUDIT_ROWS_READ", "actions", "request"),
        ("actions on a page of the audit", "web.audit_models:MAX_AUDIT_ROWS_PER_PAGE", "actions", "request"),
        ("name of a changed thing", "tree.audit:MAX_AUDIT_TARGET_LENGTH", "characters", "action of the audit"),
        ("sessions", "identity.sessions:MAX_LISTED_SESSIONS", "sessions", "list of sessions"),
        ("device of a session", "identity.sessions:MAX_DEVICE_LENGTH", "characters", "session"),
        ("tokens", "identity.app_passwords:MAX_APP_PASSWORDS_PER_USER", "tokens", "user"),
        ("title of a key", "identity.keys:MAX_TITLE_LENGTH", "characters", "key"),
        ("title of a token", "identity.app_passwords:MAX_TITLE_LENGTH", "characters", "token"),
    ),
    *_make(
        "Tests of storages",
        ("time", "tree.administration:TRIAL_SECONDS", "seconds", "request"),
        ("folders in the answer", "tree.administration:MAX_TRIAL_FOLDERS", "folders", "request"),
    ),
    *_make(
        "Thumbnails on storages other than Local",
        ("stored thumbnails", "tree.operations.thumbnails:MAX_CACHED_THUMBNAILS", "thumbnails", "service"),
        ("stored thumbnails together", "tree.operations.thumbnails:MAX_CACHED_THUMBNAIL_BYTES", "bytes", "service"),
    ),
    *_make(
        "Settings",
        ("key", "configuration.settings:MAX_KEY_LENGTH", "characters", "setting"),
        ("value", "configuration.settings:MAX_VALUE_LENGTH", "characters", "setting"),
    ),
    *_make(
        "Uploads",
        ("chunks in memory", f"{LIMITS}:CHUNK_BYTES", "bytes", "all processes"),
        ("chunks in memory", f"{LIMITS}:CHUNK_BYTES_PER_USER", "bytes", "user"),
        ("wait for that memory", f"{LIMITS}:CHUNK_WAIT_SECONDS", "seconds", "chunk"),
        ("chunks", "tasks.upload.multipart:MAX_CHUNKS", "chunks", "upload"),
        ("files of a batch", "web.upload_batch:MAX_FILES_PER_BATCH", "files", "request"),
        ("a batch", "web.upload_batch:MAX_BATCH_BYTES", "bytes", "request"),
        ("chunks signed together", "web.multipart:MAX_SIGNED_CHUNKS_PER_REQUEST", "chunks", "request"),
        ("id of an upload", "web.multipart:MAX_ID_LENGTH", "characters", "request"),
        ("bodies that a storage takes in one piece", f"{LIMITS}:WHOLE_BODY_BYTES", "bytes", "all processes"),
    ),
    *_make(
        "Sharing",
        ("share links", f"{SHARING}:MAX_SHARE_LINKS_PER_USER", "links", "user"),
        ("files and folders", f"{SHARING}:MAX_SHARED_PATHS", "paths", "share link"),
        ("paths together", f"{SHARING}:MAX_SHARED_PATHS_BYTES", "bytes", "share link"),
        ("chosen id", f"{SHARING}:MAX_ID_LENGTH", "characters", "share link"),
        ("password", "web.share_models:MAX_PASSWORD_LENGTH", "characters", "share link"),
        ("remark", "web.share_models:MAX_REMARK_LENGTH", "characters", "share link"),
        ("readme, and header", "web.share_models:MAX_TEXT_LENGTH", "characters", "share link"),
        ("extensions", f"{SHARING}:MAX_EXTENSIONS", "extensions", "share link"),
        ("unknown ids of a source", "tree.sharing.visits:MAX_UNKNOWN_IDS_PER_SOURCE", "ids", "lock-out window"),
        ("receipts", "records.share_uploads:MAX_RECEIPTS_PER_SESSION", "receipts", "session of a sender"),
        (
            "uploads in chunks, not ended",
            f"{OPEN_UPLOADS}:MAX_OPEN_UPLOADS_PER_SENDER", "uploads", "share link and address",
        ),
        ("uploads in chunks, not ended", f"{OPEN_UPLOADS}:MAX_OPEN_UPLOADS_PER_SHARE", "uploads", "share link"),
        ("uploads in chunks, not ended", f"{OPEN_UPLOADS}:MAX_OPEN_SHARED_UPLOADS", "uploads", "all share links"),
        ("session of a sender", "tree.sharing.uploads:MAX_SESSION_LENGTH", "characters", "request"),
    ),
    *_make(
        "Trash",
        ("entries of a page", "tree.trash.entries:MAX_ENTRIES_PER_PAGE", "entries", "request"),
        ("entries that are read for a page", "tree.trash.entries:MAX_ROWS_PER_LISTING", "entries", "request"),
        ("ids", "tree.trash.entries:MAX_IDS_PER_REQUEST", "ids", "request"),
        ("entries that are emptied", "tree.trash.entries:MAX_ENTRIES_PER_EMPTYING", "entries", "request"),
        ("id of a version", "tree.trash.versions:MAX_ID_LENGTH", "characters", "request"),
        ("versions", "tree.trash.keeping:MAX_VERSIONS_PER_FILE", "versions", "file"),
        ("entries after a clean-up", "tree.trash.repair:MAX_ENTRIES_PER_STORAGE", "entries", "storage"),
        ("entries that one user removed", "tree.trash.repair:MAX_ENTRIES_PER_OWNER", "entries", "storage"),
    ),
    *_make(
        "Search",
        ("searches at once", f"{LIMITS}:SEARCH_CONCURRENCY", "searches", "all processes"),
        ("searches at once", f"{LIMITS}:SEARCHES_PER_CALLER", "searches", "caller"),
        ("wait for a search", f"{LIMITS}:SEARCH_WAIT_SECONDS", "seconds", "search"),
        ("keywords", "search.words:MAX_KEYWORDS_LENGTH", "characters", "search"),
        ("words", "search.words:MAX_WORDS", "words", "search"),
        ("wildcards", "search.words:MAX_WILDCARDS", "wildcards", "search"),
        ("extensions", "search.words:MAX_EXTENSIONS", "extensions", "search"),
        ("extension", "search.words:MAX_EXTENSION_LENGTH", "characters", "extension"),
        ("rows of a page", "web.search_models:MAX_ROWS_PER_PAGE", "rows", "search"),
    ),
    *_make(
        "Archives",
        ("look-ups at once", f"{LIMITS}:ARCHIVE_LOOKUP_CONCURRENCY", "archives", "all processes"),
        ("look-ups at once", f"{LIMITS}:ARCHIVE_LOOKUPS_PER_CALLER", "archives", "caller"),
        ("files sent at once", f"{LIMITS}:ARCHIVE_MEMBER_CONCURRENCY", "files", "all processes"),
        ("files sent at once", f"{LIMITS}:ARCHIVE_MEMBERS_PER_CALLER", "files", "caller"),
        ("memory of a dictionary", "archives.base:MAX_MEMORY", "bytes", "archive"),
        ("header of a 7z archive", "archives.seven_zip:MAX_HEADER_SIZE", "bytes", "archive"),
        ("nested headers of a 7z archive", "archives.seven_zip:MAX_NESTED_HEADERS", "headers", "archive"),
        ("header of a tar archive", "archives.tar_archive:MAX_HEADER_SIZE", "bytes", "entry"),
        ("entries that are shown together", "tree.operations.archives:MAX_TREE_ENTRIES", "entries", "answer"),
        ("files and folders that are packed", "setting:zip_max_files", "files and folders", "archive"),
        ("files that are packed", "setting:zip_max_size", "bytes", "archive"),
        ("list of what is packed", "tree.operations.packing:PLAN_SECONDS", "seconds", "request"),
        ("link to a packed selection", "web.zip_links:LINK_SECONDS", "seconds", "link"),
        ("link to an archive that a task makes", "web.zip_links:TASK_LINK_SECONDS", "seconds", "link"),
    ),
    *_make(
        "Events",
        ("streams at once", f"{LIMITS}:EVENT_STREAM_CONCURRENCY", "streams", "all processes"),
        ("streams at once", f"{LIMITS}:EVENT_STREAMS_PER_CALLER", "streams", "caller"),
        ("time until the client connects again", "web.events:MAX_STREAM_SECONDS", "seconds", "stream"),
        ("unfinished tasks that are reported", "web.events:MAX_TASKS_PER_KIND", "tasks", "kind"),
    ),
    *_make(
        "Watched disks",
        ("storages with `watch_disk`", "standalone.disk_watch:MAX_WATCHED_STORAGES", "storages", "service"),
        ("folders that are watched", "standalone.disk_watch:MAX_WATCHED_FOLDERS", "folders", "service"),
        ("folders that changed together", "standalone.disk_watch:MAX_FOLDERS_PER_BATCH", "folders", "storage"),
    ),
    *_make(
        "Thumbnails",
        ("thumbnails at once", f"{LIMITS}:THUMBNAIL_CONCURRENCY", "thumbnails", "all processes"),
        ("thumbnails at once", f"{LIMITS}:THUMBNAILS_PER_CALLER", "thumbnails", "caller"),
        ("wait for a thumbnail", f"{LIMITS}:THUMBNAIL_WAIT_SECONDS", "seconds", "request"),
        ("pixels", "drivers.local.decoder:MAX_PIXELS", "pixels", "picture"),
        ("SVG", "drivers.local.thumbnails:MAX_SVG_BYTES", "bytes", "picture"),
    ),
    *_make(
        "Offline downloads",
        ("address", "tools.urls:MAX_LENGTH", "bytes", "download"),
        ("torrent", "tools.torrents:MAX_SIZE", "bytes", "download"),
        ("values of a torrent", "tools.torrents:MAX_VALUES", "values", "download"),
        ("depth of a torrent", "tools.torrents:MAX_DEPTH", "levels", "download"),
        ("servers that a torrent names", "tools.urls:MAX_SERVERS", "servers", "download"),
        ("growth of a compressed answer", "tools.http:MAX_RATIO", "times", "download"),
        ("redirects", "net.client:MAX_REDIRECTS", "redirects", "request"),
        ("lowest speed of a server", "tools.http:MIN_RATE", "per second", "download"),
    ),
    *_make("Tasks", ("tasks", "tasks.submit:MAX_TASKS_PER_REQUEST", "tasks", "request")),
    *_make(
        "WebDAV",
        ("body", f"{DAV}.bodies:MAX_BODY_BYTES", "bytes", "request"),
        ("elements of a body", f"{DAV}.bodies:MAX_ELEMENTS_PER_BODY", "elements", "request"),
        ("depth of a body", f"{DAV}.bodies:MAX_DEPTH_OF_BODY", "levels", "request"),
        ("names of a PROPFIND", f"{DAV}.bodies:MAX_NAMES_PER_PROPFIND", "names", "request"),
        ("names of a PROPPATCH", f"{DAV}.bodies:MAX_NAMES_PER_PROPPATCH", "names", "request"),
        ("namespaces", f"{DAV}.bodies:MAX_NAMESPACES_PER_BODY", "namespaces", "request"),
        ("namespace", f"{DAV}.bodies:MAX_NAMESPACE_CHARACTERS", "characters", "namespace"),
        ("name of an element", f"{DAV}.bodies:MAX_NAME_CHARACTERS", "characters", "name"),
        ("owner of a lock", f"{DAV}.bodies:MAX_OWNER_CHARACTERS", "characters", "lock"),
        ("time of a lock", f"{DAV}.headers:MAX_LOCK_SECONDS", "seconds", "lock"),
        ("locks", "records.webdav_locks:MAX_LOCKS_PER_USER", "locks", "user"),
        ("shared locks", "records.webdav_locks:MAX_LOCKS_PER_FILE", "locks", "file"),
        ("properties", "records.webdav_properties:MAX_PROPERTIES_PER_ENTRY", "properties", "entry"),
        ("properties", "records.webdav_properties:MAX_BYTES_PER_ENTRY", "bytes", "entry"),
        ("properties", "records.webdav_properties:MAX_BYTES_PER_USER", "bytes", "user"),
        ("conditions of `If`", f"{DAV}.headers:MAX_CONDITIONS_PER_IF", "conditions", "request"),
        ("header `If`", f"{DAV}.headers:MAX_IF_CHARACTERS", "characters", "request"),
        ("values of an answer", f"{DAV}.properties:MAX_VALUE_CHARACTERS_PER_ENTRY", "characters", "entry"),
    ),
    *_make(
        "SFTP",
        ("connections without a sign-in", f"{SFTP}.server:MAX_STRANGERS", "connections", "service"),
        (
            "connections without a sign-in",
            f"{SFTP}.server:MAX_STRANGERS_PER_SOURCE", "connections", "address, or IPv6 network",
        ),
        ("time of a sign-in", f"{SFTP}.server:LOGIN_SECONDS", "seconds", "connection"),
        ("connections", f"{SFTP}.server:MAX_CONNECTIONS", "connections", "service"),
        ("connections", f"{SFTP}.server:MAX_CONNECTIONS_PER_SOURCE", "connections", "address, or IPv6 network"),
        ("channels", f"{SFTP}.server:MAX_CHANNELS_PER_CONNECTION", "channels", "connection"),
        ("bytes that wait to be processed", f"{SFTP}.server:CHANNEL_WINDOW_BYTES", "bytes", "channel"),
        ("bytes that arrive during one packet", f"{SFTP}.flow:MAX_UNPROCESSED_BYTES", "bytes", "connection"),
        ("packets during a key exchange", f"{SFTP}.flow:MAX_DEFERRED_PACKETS", "packets", "connection"),
        ("answers that are not taken", f"{SFTP}.flow:ANSWER_WINDOW_BYTES", "bytes", "connection, and channel"),
        ("packet", f"{SFTP}.protocol:MAX_PACKET_BYTES", "bytes", "packet"),
        ("answer to READ", f"{SFTP}.handles:READ_BYTES", "bytes", "packet"),
        ("names of an answer", f"{SFTP}.files:MAX_NAMES_PER_ANSWER", "names", "packet"),
        ("open files and folders", f"{SFTP}.handles:MAX_HANDLES_PER_CONNECTION", "handles", "connection"),
        ("files open for writing", f"{SFTP}.handles:MAX_WRITE_HANDLES_PER_CONNECTION", "handles", "connection"),
        ("open files and folders", f"{SFTP}.handles:MAX_HANDLES_PER_USER", "handles", "user"),
        ("open files and folders", f"{SFTP}.handles:MAX_HANDLES", "handles", "service"),
        ("gaps that were not sent", f"{SETTING}sftp_max_gap_mb", "bytes", "file"),
        ("temporary file", f"{SFTP}.writing:MAX_SPOOLED_BYTES_PER_FILE", "bytes", "file"),
        ("temporary files", f"{SETTING}sftp_max_temporary_mb_per_user", "bytes", "user"),
        ("temporary files", f"{SETTING}sftp_max_temporary_mb", "bytes", "service"),
        ("free space beside temporary files", f"{SFTP}.handles:SPOOL_RESERVE_BYTES", "bytes", "disk"),
        ("age of the rights of a handle", f"{SFTP}.handles:EVALUATION_INTERVAL_SECONDS", "seconds", "handle"),
    ),
]  # fmt: skip
"""The bounds of all inputs."""


def generate_reference() -> Files:
    """Derive `docs/reference/limits.md`: a table for each protocol."""
    groups = groupby(LIST, key=lambda limit: limit.protocol)
    return {"docs/reference/limits.md": HEAD + "".join(_render(protocol, list(rows)) for protocol, rows in groups)}


def _render(protocol: str, rows: Sequence[Limit]) -> str:
    lines = [f"| {row.input} | {_format(row.read(), row.unit)} | {row.scope} | `{row.constant}` |\n" for row in rows]
    return f"\n## {protocol}\n\n| input | bound | of one | constant |\n|---|---|---|---|\n{''.join(lines)}"


def _format(value: float, unit: str) -> str:
    if unit not in UNITS:
        return f"{value:,g} {unit}" if isinstance(value, float) else f"{value:,} {unit}"
    power = next((power for power in (3, 2, 1) if not value % (1 << 10 * power)), 0)
    return f"{int(value) >> 10 * power:,}{UNITS[unit][power]}"

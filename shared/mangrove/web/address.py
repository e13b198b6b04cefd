"""The addresses of a connection: the one that the client used to reach the service, and the client's own.

Headers that state them (`Host`, `X-Forwarded-*`) count only if a trusted proxy sent them; in the cloud the event of
API Gateway has them.
"""

from __future__ import annotations

import hmac
import re
from ipaddress import IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from starlette.requests import Request

from mangrove.core.config import config
from mangrove.web.flavours import OPENLIST_PREFIX, ApiFlavour

PROXY_SECRET_HEADER = "X-Proxy-Secret"
_HOST = re.compile(r"[A-Za-z0-9.\-_\[\]:]{1,255}")
_INDIRECT_HEADERS = ("x-forwarded-for", "forwarded", "via", "x-real-ip")
_PORTS = {"http": 80, "https": 443}
_LOOPBACK_ADDRESSES = frozenset({"127.0.0.1", "::1"})  # the usual ones, which are not parsed


async def find_base_url(request: Request, flavour: ApiFlavour) -> str:
    """Return `scheme://host[/openlist]` without a trailing slash.

    It is the configured site address, otherwise the address from a trusted proxy, otherwise the domain of API Gateway
    or the local end of the connection.
    """
    site = config().site_url
    prefix = OPENLIST_PREFIX if flavour is ApiFlavour.OPENLIST else ""
    if site.startswith("http"):
        return site + prefix
    return (_read_forwarded(request) or _find_own_origin(request)) + prefix


def _read_forwarded(request: Request) -> str:
    """Return the origin that the client sent to a trusted proxy; "" without such a proxy or origin."""
    if not _is_from_proxy(request):
        return ""
    scheme = request.headers.get("x-forwarded-proto", request.url.scheme)
    host = request.headers.get("x-forwarded-host") or request.headers.get("host", "")
    return f"{scheme}://{host}" if _HOST.fullmatch(host) and scheme in _PORTS else ""


def _find_own_origin(request: Request) -> str:
    event = request.scope.get("aws.event")
    if event is not None:
        return f"https://{event['requestContext']['domainName']}"
    scheme = request.scope["scheme"]
    host, port = request.scope.get("server") or ("localhost", None)
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host}" if port in (None, _PORTS.get(scheme)) else f"{scheme}://{host}:{port}"


async def find_site_address(request: Request) -> str:
    """Return the address of the site as a browser has it, without a trailing slash.

    That is the base URL. A browser on this computer may name it in several ways: then the name in its `Host` counts.
    """
    address = await find_base_url(request, ApiFlavour.NATIVE)
    parts, host = urlsplit(address), request.headers.get("host", "")
    if _is_loopback(parts.hostname) and _HOST.fullmatch(host) and _is_loopback(urlsplit(f"//{host}").hostname):
        return f"{parts.scheme}://{host}"
    return address


def _is_loopback(host: str | None) -> bool:
    if host == "localhost" or host in _LOOPBACK_ADDRESSES:
        return True
    try:
        return ip_address(host or "").is_loopback
    except ValueError:
        return False


def _get_peer(request: Request) -> str:
    return request.client.host if request.client else ""


def _is_from_proxy(request: Request) -> bool:
    """True if a trusted proxy has sent the request: by its address and, if there is one, by the secret of the proxies.

    Other customers of a content delivery network send from the same addresses.
    """
    return is_trusted_proxy(_get_peer(request)) and _has_proxy_secret(request)


def _has_proxy_secret(request: Request) -> bool:
    secret = config().proxy_secret
    return not secret or hmac.compare_digest(request.headers.get(PROXY_SECRET_HEADER, "").encode(), secret.encode())


def is_trusted_proxy(address: str) -> bool:
    """True if the address is that of a trusted proxy, whose `X-Forwarded-*` headers count."""
    proxies = config().trusted_proxies
    parsed = _parse_address(address) if proxies else None
    return parsed is not None and any(ip_address(parsed) in ip_network(proxy, strict=False) for proxy in proxies)


async def is_direct_loopback(request: Request) -> bool:
    """True if a program of this computer sends the request: no proxy forwards it, and no page in a browser."""
    if any(name in request.headers for name in _INDIRECT_HEADERS) and not is_trusted_proxy(_get_peer(request)):
        return False
    is_page = "origin" in request.headers or "sec-fetch-site" in request.headers
    return not is_page and _is_loopback(await find_client_address(request))


def _parse_address(text: str) -> str | None:
    """Return an IP address in its usual form, without brackets and port; None for any other text."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


async def find_client_address(request: Request) -> str:
    """Return the client's address: the last hop, going backwards, that is not a trusted proxy."""
    address = _get_peer(request)
    if not _has_proxy_secret(request):
        return address
    hops = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    while hops and is_trusted_proxy(address):
        hop = _parse_address(hops.pop())
        if hop is None:
            break
        address = hop
    return address


async def is_confidential(request: Request) -> bool:
    """True if the request came over TLS, as this service or a trusted proxy sees it, or from this computer."""
    if "aws.event" in request.scope or request.scope["scheme"] == "https":
        return True
    if _is_from_proxy(request) and request.headers.get("x-forwarded-proto") == "https":
        return True
    client = await find_client_address(request)
    address = client if client in _LOOPBACK_ADDRESSES else _parse_address(client)
    return address is not None and _is_loopback(address)

"""The certificates of the authorities that AWS's endpoints are certified by, taken from all that are trusted.

AWS names them: Amazon Trust Services, at https://www.amazontrust.com/repository/ (Amazon Root CA 1 to 4, and the
Starfield Services root that stands behind them for older clients). Where they are renewed, the list of all
(certifi, whose version the requirements say) has the new ones under these names, or the build fails.
"""

from __future__ import annotations

import re
from pathlib import Path

NAMES = (
    "Amazon Root CA 1",
    "Amazon Root CA 2",
    "Amazon Root CA 3",
    "Amazon Root CA 4",
    "Starfield Services Root Certificate Authority - G2",
)
_LABELLED = re.compile(
    r'^# Label: "(?P<name>[^"]+)"\n(?:#.*\n)*(?P<pem>-----BEGIN CERTIFICATE-----\n[^-]+-----END CERTIFICATE-----\n)',
    re.MULTILINE,
)


def choose_roots(bundle: str) -> str:
    """The roots of AWS out of certifi's bundle, in PEM; ValueError when one of them is not there."""
    certificates = {match["name"]: match["pem"] for match in _LABELLED.finditer(bundle)}
    missing = [name for name in NAMES if name not in certificates]
    if missing:
        raise ValueError(f"certifi has no certificate of {', '.join(missing)}")
    return "".join(f"# {name}\n{certificates[name]}" for name in NAMES)


def write_roots(folder: Path) -> None:
    """Put the roots where `mangrove.core.aws` reads them, if this layer has the package."""
    if (folder / "mangrove").is_dir():
        text = choose_roots((folder / "certifi" / "cacert.pem").read_text())
        (folder / "mangrove" / "core" / "aws-roots.pem").write_text(text)

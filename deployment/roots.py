"""The certificates of the authorities for AWS's endpoints, selected from the certificates in certifi.

AWS names them: Amazon Trust Services, at https://www.amazontrust.com/repository/ (Amazon Root CA 1 to 4, and the
Starfield Services root for older clients). After a renewal, the version of certifi in the requirements has the new
certificates under these names, or the build fails.
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
    """Return the roots of AWS from certifi's bundle, in PEM. Raise ValueError if one of them is missing."""
    certificates = {match["name"]: match["pem"] for match in _LABELLED.finditer(bundle)}
    missing = [name for name in NAMES if name not in certificates]
    if missing:
        raise ValueError(f"certifi has no certificate of {', '.join(missing)}")
    return "".join(f"# {name}\n{certificates[name]}" for name in NAMES)


def write_roots(folder: Path) -> None:
    """Write the roots to the path that `mangrove.core.aws` reads, if this layer has the package."""
    if (folder / "mangrove").is_dir():
        text = choose_roots((folder / "certifi" / "cacert.pem").read_text())
        (folder / "mangrove" / "core" / "aws-roots.pem").write_text(text)

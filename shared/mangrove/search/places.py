"""Where the index lies on this machine, and where its database puts what does not fit into the memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

SPILL = "spill-"  # and the process id


def make_spill_folder(folder: Path) -> Path:
    """A folder of this process below that of the index, after those of ended processes are removed. DuckDB makes it
    when it needs it, and removes it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in folder.glob(f"{SPILL}*"):
        if not _is_running(path.name.removeprefix(SPILL).partition("-")[0]):
            shutil.rmtree(path, ignore_errors=True)
    return Path(tempfile.mktemp(prefix=f"{SPILL}{os.getpid()}-", dir=folder))  # noqa: S306  a folder of mode 700


def _is_running(process_id: str) -> bool:
    try:
        os.kill(int(process_id), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        pass  # of another user
    return True

"""The form of a Virtual storage."""

from __future__ import annotations

from mangrove.drivers.options import Options, option


class VirtualOptions(Options):
    root_folder_path: str = option("")
    num_file: int = option(30, required=True)
    num_folder: int = option(30, required=True)
    max_file_size: int = option(1073741824, required=True)
    min_file_size: int = option(1048576, required=True)

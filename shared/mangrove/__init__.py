"""Mangrove: many storages under mount paths, shown as one tree."""

__version__ = "0.3.0"

"""The types of pictures that get thumbnails. Listings need their names alone, without the decoder."""

from __future__ import annotations

PICTURES = frozenset({"jpg", "jpeg", "png", "gif", "bmp", "webp", "tiff", "tif", "avif", "svg"})
"""By the extensions of their names."""

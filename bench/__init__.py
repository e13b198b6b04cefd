"""Measure the speed of the real service against its aims: `python -m bench`."""

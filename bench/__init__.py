"""How fast the real service is, next to what it aims at: `python -m bench`."""

"""The least that a function of this kind can be: the packages that all of them are built on, and one record read."""

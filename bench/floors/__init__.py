"""The smallest possible functions: they import the packages that all functions need, and read one record."""

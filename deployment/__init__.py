"""Steps of `make build` and `make deploy` on the functions. Not a part of the service."""

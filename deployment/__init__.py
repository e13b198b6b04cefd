"""Steps of `make build` and `make deploy` for the functions. They are not part of the service."""

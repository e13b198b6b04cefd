"""What `make build` and `make deploy` do to the functions before they go to the cloud; no part of the service."""

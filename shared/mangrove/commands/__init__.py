"""The commands that work with any Mangrove through its API. They know the client and nothing of the service."""

"""The guard on outgoing connections: the addresses that may be reached, and the client that enforces it."""

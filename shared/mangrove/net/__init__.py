"""The guard on outgoing connections: which addresses may be reached, and the client that keeps to it."""

"""What people wait for, measured on Mangrove and, where PEER names one, on another service of the family, in turn."""

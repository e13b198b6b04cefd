"""SFTP access to the tree."""

from mangrove.identity.rights import Right
from mangrove.identity.scopes import TokenProtocol
from mangrove.protocols.sessions import ProtocolAccess

SFTP = ProtocolAccess("sftp", Right.FTP_READ, Right.FTP_MANAGE, TokenProtocol.SFTP)

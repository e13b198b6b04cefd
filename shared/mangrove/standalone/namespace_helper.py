"""The process in the records engine's network namespace that opens sockets in it.

Run as `python -I -S namespace_helper.py LISTENER [FOLDER]`. It has to stay small, so it does not import Mangrove.
LISTENER is the number of the Unix socket on which it answers; each connection gets one TCP socket that is not connected
yet. With FOLDER, the engine's folder, it creates the namespace first and then prints `ready`, or the reason why there
is none, in one line on standard output.
"""

import ctypes
import errno
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def unshare(flags: int) -> None:
    """Move this process into new namespaces. Raise OSError."""
    if ctypes.CDLL(None, use_errno=True).unshare(flags):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def make_namespace() -> None:
    """Create a network namespace with nothing but its loopback interface; without the privilege for one, inside a user
    namespace.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        unshare(CLONE_NEWNET)
    except PermissionError:
        unshare(CLONE_NEWUSER | CLONE_NEWNET)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def check_access(folder: str) -> None:
    """Raise PermissionError for a folder that is not accessible inside: in a user namespace, root has no access to
    files of others.
    """
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, f"{folder} is of another account")


def main(number: int, folder: str = "") -> None:
    """Answer until the end."""
    if folder:
        try:
            make_namespace()
            check_access(folder)
        except OSError as error:
            print(error.strerror, flush=True)
            return
        print("ready", flush=True)
    listener = socket.socket(fileno=number)
    while True:
        connection, _ = listener.accept()
        try:
            with connection, socket.socket() as engine_socket:
                socket.send_fds(connection, [b"+"], [engine_socket.fileno()])
        except OSError:
            pass  # the client has disconnected


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])

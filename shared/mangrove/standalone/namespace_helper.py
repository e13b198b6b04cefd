"""The process that lives in the records engine's network namespace, and gives sockets of it.

Run as `python -I -S namespace_helper.py LISTENER [FOLDER]`: it must stay small, so nothing of Mangrove is imported.
LISTENER is the number of the Unix socket it answers at; who connects gets one TCP socket, not connected yet. With
FOLDER, where the engine will write, it makes the namespace first and then says `ready`, or why there is none, in one
line on standard output.
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
    """Move this process into new namespaces; OSError."""
    if ctypes.CDLL(None, use_errno=True).unshare(flags):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def make_namespace() -> None:
    """A network namespace with nothing but its loopback; without the right to one, inside of a user namespace."""
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
    """PermissionError for a folder that is closed inside: a user namespace takes from root what is not its own."""
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
            pass  # who asked is gone


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])

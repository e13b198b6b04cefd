"""The process in the records engine's network namespace that opens sockets in it.

Run as `python -I -S namespace_helper.py LISTENER [FOLDER]`. It has to stay small, so it imports neither Mangrove nor
the modules `os`, `socket` and `struct`, which take 1.5 MB. LISTENER is the number of the Unix socket on which it
answers; each connection gets one TCP socket that is not connected yet. With FOLDER, the engine's folder, it creates the
namespace first and then prints `ready`, or the reason why there is none, in one line on standard output.
"""

import _socket
import errno
import fcntl
import posix
import sys

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
NAME_BYTES, REQUEST_BYTES = 16, 32  # of the name of an interface, at the beginning of a request; the flags follow it
FILE_BYTES = 4  # of the number of an open file, in a message


def unshare(flags: int) -> None:
    """Move this process into new namespaces. Raise OSError."""
    if sys.version_info >= (3, 12):
        posix.unshare(flags)
        return
    import ctypes

    if ctypes.CDLL(None, use_errno=True).unshare(flags):
        number = ctypes.get_errno()
        raise OSError(number, posix.strerror(number))


def make_namespace() -> None:
    """Create a network namespace with nothing but its loopback interface; without the privilege for one, inside a user
    namespace.
    """
    user, group = posix.geteuid(), posix.getegid()
    try:
        unshare(CLONE_NEWNET)
    except PermissionError:
        unshare(CLONE_NEWUSER | CLONE_NEWNET)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    enable_loopback()


def enable_loopback() -> None:
    """Set the flag of the loopback interface that makes it work."""
    request = b"lo".ljust(NAME_BYTES, b"\0") + IFF_UP.to_bytes(2, sys.byteorder)
    any_socket = _socket.socket()
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, request.ljust(REQUEST_BYTES, b"\0"))
    any_socket.close()


def check_access(folder: str) -> None:
    """Raise PermissionError for a folder that is not accessible inside: in a user namespace, root has no access to
    files of others.
    """
    if not posix.access(folder, posix.W_OK | posix.X_OK):
        raise PermissionError(errno.EACCES, f"{folder} is of another account")


def send_socket(connection: _socket.socket) -> None:
    """Open a socket and send it. Raise OSError if the client has disconnected."""
    engine_socket = _socket.socket()
    try:
        number = engine_socket.fileno().to_bytes(FILE_BYTES, sys.byteorder)
        connection.sendmsg([b"+"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, number)])
    finally:
        engine_socket.close()


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
    listener = _socket.socket(fileno=number)
    while True:
        descriptor, _ = listener._accept()  # type: ignore[attr-defined]  # what `socket.accept` calls
        connection = _socket.socket(fileno=descriptor)
        try:
            send_socket(connection)
        except OSError:
            pass  # the client has disconnected
        finally:
            connection.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])

"""The arguments of the commands that work through the API."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from mangrove.client.operations import RIGHTS, TASK_KINDS
from mangrove.commands import accounts, files, sharing, storages, tasks, transfers
from mangrove.commands.context import Run

DATA_VARIABLE, URL_VARIABLE = "MANGROVE_DATA", "MANGROVE_URL"
MAX_RESULTS = 1000  # of a search, unless the caller sets another number
PATTERNS = "paths in the tree; * ? [] match within a name"
Commands = Any  # argparse._SubParsersAction[argparse.ArgumentParser], which has no public name


class ClientCommands:
    """Adds the commands to a parser. The variables in `environment` replace defaults."""

    def __init__(self, commands: Commands, environment: Mapping[str, str]) -> None:
        self._commands = commands
        self._environment = environment

    def add_all(self) -> None:
        """Add all commands."""
        self._add_signing_in()
        self._add_files()
        self._add_transfers()
        self._add_accounts()
        self._add_storages()
        self._add_settings()
        self._add_tasks()
        self._add_sharing()

    def _add(self, commands: Commands, name: str, help: str, run: Run) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = commands.add_parser(name, help=help)
        url, data = self._environment.get(URL_VARIABLE, ""), self._environment.get(DATA_VARIABLE, "data")
        address_help = "address of a service; without one, the command works on the data directory"
        command.add_argument("--url", default=url, help=address_help)
        command.add_argument("--data", default=data, help="the data directory")
        command.add_argument("--json", action="store_true", help="print JSON")
        command.add_argument("--quiet", action="store_true", help="show no progress")
        command.set_defaults(run=run)
        return command

    def _add_group(self, name: str, help: str) -> Commands:
        group = self._commands.add_parser(name, help=help)
        return group.add_subparsers(dest="action", required=True, metavar="ACTION")

    def _add_signing_in(self) -> None:
        login = self._add(self._commands, "login", "sign in at --url and store the token", accounts.login)
        login.add_argument("--user", default="admin", help="the user name")
        login.add_argument("--with-token", action="store_true", help="read a token instead of a password")
        self._add(self._commands, "logout", "end the session at --url and remove the token", accounts.logout)

    def _add_files(self) -> None:
        ls = self._add(self._commands, "ls", "list entries", files.list_entries)
        ls.add_argument("paths", nargs="*", help=PATTERNS)
        ls.add_argument("-r", "--recursive", action="store_true", help="list everything below folders")
        ls.add_argument("-d", "--directory", action="store_true", help="list folders themselves")
        ls.add_argument("--refresh", action="store_true", help="read the storage again")
        _add_literal(ls)
        mkdir = self._add(self._commands, "mkdir", "create folders and their missing parents", files.make_folders)
        mkdir.add_argument("paths", nargs="+", help="paths in the tree")
        rm = self._add(self._commands, "rm", "remove entries", files.remove)
        rm.add_argument("paths", nargs="+", help=PATTERNS)
        rm.add_argument("-r", "--recursive", action="store_true", help="remove folders, too")
        _add_literal(rm)
        for name, help, run in (
            ("cp", "copy entries within the tree", files.copy),
            ("mv", "move or rename entries within the tree", files.move),
        ):
            command = self._add(self._commands, name, help, run)
            command.add_argument("sources", nargs="+", help=PATTERNS)
            command.add_argument("target", help="a folder, or the new path of one entry")
            if name == "cp":
                command.add_argument("-r", "--recursive", action="store_true", help="copy folders, too")
            command.add_argument("-f", "--force", action="store_true", help="replace existing files")
            command.add_argument("--no-wait", action="store_true", help="do not wait for tasks; print their ids")
            _add_literal(command)

    def _add_transfers(self) -> None:
        get = self._add(self._commands, "get", "download files", transfers.get)
        help = "paths in the tree, then a local path; - is standard output; * ? [] match within a name"
        get.add_argument("paths", nargs="+", help=help)
        put = self._add(self._commands, "put", "upload files", transfers.put)
        put.add_argument("sources", nargs="+", help="local paths; - is standard input")
        put.add_argument("target", help="a folder of the tree, or the path of one file")
        put.add_argument("--no-overwrite", action="store_true", help="refuse to replace existing files")
        for command in (get, put):
            command.add_argument("-r", "--recursive", action="store_true", help="copy folders, too")
            command.add_argument("--size-only", action="store_true", help="files of the same size are the same")
            command.add_argument("-f", "--force", action="store_true", help="transfer unchanged files, too")
        _add_literal(get)

    def _add_accounts(self) -> None:
        user = self._add_group("user", "users")
        self._add(user, "list", "list users", accounts.list_users)
        add = self._add(user, "add", "create a user; the password is typed, or random if empty", accounts.add_user)
        add.add_argument("name", help="the user name")
        add.add_argument("--base-path", default="/", help="the folder that the user sees as the root")
        add.add_argument("--right", action="append", default=[], choices=RIGHTS, metavar="RIGHT", help=_list(RIGHTS))
        for name, help, run in (
            ("password", "set a password: the one that is typed, otherwise a random one", accounts.set_password),
            ("disable", "disable a user", accounts.disable_user),
            ("enable", "enable a user", accounts.enable_user),
            ("delete", "delete a user", accounts.delete_user),
        ):
            self._add(user, name, help, run).add_argument("name", help="the user name")
        token = self._add_group("token", "tokens of the caller")
        self._add(token, "list", "list tokens", accounts.list_tokens)
        create = self._add(token, "create", "create a token and print it", accounts.create_token)
        create.add_argument("title", help="a name for the token")
        create.add_argument("--folder", default="/", help="the folder that the token sees as the root")
        create.add_argument("--mode", default="both", choices=("read", "write", "both"), help="its use")
        protocols = ("api", "webdav", "sftp", "mcp")
        create.add_argument("--protocol", action="append", choices=protocols, help="its protocols, api by default")
        create.add_argument("--expires", default="", help="its end, such as 2030-01-01T00:00:00Z")
        delete = self._add(token, "delete", "delete a token", accounts.delete_token)
        delete.add_argument("id", type=int, help="the id of the token")

    def _add_storages(self) -> None:
        storage = self._add_group("storage", "storages")
        self._add(storage, "list", "list storages with their status", storages.list_storages)
        add = self._add(storage, "add", "mount a storage", storages.add_storage)
        add.add_argument("mount_path", help="the path in the tree")
        add.add_argument("driver", help="the driver, such as Local or S3")
        option = "an option of the driver; other accounts of the machine may see it: put secrets into a file"
        add.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help=option)
        add.add_argument("--options-file", default="", help="a JSON object of options; - is standard input")
        test = self._add(storage, "test", "read the root folders of storages", storages.test_storages)
        test.add_argument("mount_paths", nargs="*", help="mount paths; all if there are none")
        self._add(storage, "reload", "start all storages again", storages.reload_storages)
        delete = self._add(storage, "delete", "delete a storage; its files stay", storages.delete_storage)
        delete.add_argument("mount_path", help="the mount path")
        index = self._add_group("index", "the index of names")
        self._add(index, "status", "print the state of the index", storages.show_index)
        build = self._add(index, "build", "build the index, or update it below paths", storages.build_index)
        build.add_argument("paths", nargs="*", help="folders of the tree")
        build.add_argument("--no-wait", action="store_true", help="do not wait for the end")
        self._add(index, "stop", "stop the building of the index", storages.stop_index)
        self._add(index, "clear", "delete the index", storages.clear_index)

    def _add_settings(self) -> None:
        settings = self._add_group("settings", "settings")
        get = self._add(settings, "get", "print settings", storages.get_settings)
        get.add_argument("keys", nargs="*", help="keys; all if there are none")
        change = self._add(settings, "set", "change settings, all or none", storages.set_settings)
        change.add_argument("pairs", nargs="+", metavar="KEY[=VALUE]", help="without a value, it is typed or read")

    def _add_tasks(self) -> None:
        task = self._add_group("task", "tasks")
        list_command = self._add(task, "list", "list unfinished tasks", tasks.list_tasks)
        list_command.add_argument("--done", action="store_true", help="list finished tasks, too")
        list_command.add_argument("--kind", action="append", choices=TASK_KINDS, help="only tasks of this kind")
        for name, help, run in (
            ("cancel", "cancel tasks", tasks.cancel_tasks),
            ("retry", "retry failed tasks", tasks.retry_tasks),
            ("wait", "wait for tasks", tasks.wait_for_tasks),
        ):
            self._add(task, name, help, run).add_argument("ids", nargs="+", help="ids of tasks")

    def _add_sharing(self) -> None:
        share = self._add_group("share", "share links")
        self._add(share, "list", "list share links", sharing.list_shares)
        create = self._add(share, "create", "create a share link and print its address", sharing.create_share)
        create.add_argument("paths", nargs="+", help="paths in the tree")
        create.add_argument("--expires", default="", help="its end, such as 2030-01-01T00:00:00Z")
        create.add_argument("--password", action="store_true", help="read a password for the link")
        create.add_argument("--max-visits", type=int, default=0, help="the number of visits; 0 for any")
        create.add_argument("--mode", default="read", choices=("read", "drop", "both"), help="its use")
        create.add_argument("--remark", default="", help="a remark for the owner")
        delete = self._add(share, "delete", "delete share links", sharing.delete_shares)
        delete.add_argument("ids", nargs="+", help="ids of share links")
        search = self._add(self._commands, "search", "search names", sharing.search)
        search.add_argument("keywords", help="words of the name")
        search.add_argument("--folder", default="/", help="the folder to search in")
        search.add_argument("--type", default="all", choices=tuple(sharing.SCOPES), help="the entries to search for")
        search.add_argument("--max", type=int, default=MAX_RESULTS, help="the number of results")


def _add_literal(command: argparse.ArgumentParser) -> None:
    command.add_argument("--literal", action="store_true", help="the letters * ? [ match themselves")


def _list(names: Mapping[str, int]) -> str:
    return f"a right, can be repeated: {', '.join(names)}"

"""``s3rdma keys``: the access keys in the gateway's file of them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from gateway.auth.credentials import Credentials, new_key
from gateway.auth.principal import GATEWAY_ACCOUNT, Account
from gateway.cli import keyfile, options
from gateway.config.load import ConfigError, load

SUMMARY = "add, list, rotate and remove the access keys of a gateway on this host"
TEXT = """\
The file is that of the gateway's settings (--credentials-file of `s3rdma serve`), or the one that
it made in its store. The gateway reads it again by itself when it changes. A secret is shown once,
when it is made; list shows none."""
EXAMPLES = """\
s3rdma keys list
s3rdma keys add trainer --user-id ml-team --display-name 'ML team'
s3rdma keys rotate trainer --keep-old
s3rdma keys remove trainer-old"""

_OLD = "-old"


def add_parser(subparsers: options.Subparsers) -> None:
    """Name the command, what it does with keys, and their flags."""
    parser = options.add_command(subparsers, "keys", SUMMARY, EXAMPLES, TEXT)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="names, access keys and accounts; no secrets")
    _add_file_options(listing)
    add = actions.add_parser("add", help="make a key")
    add.add_argument("name", metavar="NAME", help="of the section in the file")
    group = add.add_argument_group("account", "Without --user-id it is the gateway's own.")
    group.add_argument("--user-id", metavar="ID", help="whose the key is; keys may share one")
    group.add_argument("--display-name", metavar="NAME", help="of the account [its id]")
    group.add_argument("--email", default="", metavar="ADDRESS", help="of the account")
    _add_file_options(add)
    rotate = actions.add_parser("rotate", help="make a new pair for a key; its account stays")
    rotate.add_argument("name", metavar="NAME", help="of the section in the file")
    rotate.add_argument(
        "--keep-old",
        action="store_true",
        help=f"the old pair stays good, as NAME{_OLD}, until that is removed",
    )
    _add_file_options(rotate)
    remove = actions.add_parser("remove", help="remove a key; the gateway refuses it from then on")
    remove.add_argument("name", metavar="NAME", help="of the section in the file")
    _add_file_options(remove)


def _add_file_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--credentials-file", type=Path, metavar="FILE", help="the file of keys")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the gateway's TOML file")
    parser.add_argument("--json", action="store_true", help="the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Do it; returns the exit code."""
    try:
        path = args.credentials_file or _configured_file(args.config)
        match args.action:
            case "list":
                _list(path, as_json=args.json)
            case "add":
                key = new_key(_account(args))
                keyfile.add_key(path, args.name, key)
                _show_once("added", path, args.name, key, as_json=args.json)
            case "rotate":
                _rotate(path, args)
            case "remove":
                keyfile.remove_key(path, args.name)
                _say({"removed": args.name}, f"removed [{args.name}] from {path}", args.json)
    except ConfigError as error:
        print(f"s3rdma: {error}", file=sys.stderr)
        return 2
    except keyfile.KeyFileError as error:
        print(f"s3rdma: {error}", file=sys.stderr)
        return 1
    return 0


def _configured_file(config_file: Path | None) -> Path:
    """Where the gateway with these settings finds its keys."""
    from gateway.app.keys import CREDENTIALS_FILE  # noqa: PLC0415  (with it, the whole server)

    config = load(config_file, os.environ)
    if config.credentials_file:
        return Path(config.credentials_file)
    return config.own_root / CREDENTIALS_FILE


def _account(args: argparse.Namespace) -> Account:
    if not args.user_id:
        if args.display_name or args.email:
            raise keyfile.KeyFileError("--display-name and --email need --user-id")
        return GATEWAY_ACCOUNT
    account = Account(args.user_id, args.display_name or args.user_id, args.email)
    for text in (account.user_id, account.display_name, account.email):
        if not text.isprintable() or text != text.strip():
            raise keyfile.KeyFileError(f"{text!r} is more than a line, or has space around it")
    return account


def _rotate(path: Path, args: argparse.Namespace) -> None:
    keys = keyfile.read_keys(path)
    account = keys[args.name].account if args.name in keys else GATEWAY_ACCOUNT
    key = replace(new_key(), account=account)
    old_name = f"{args.name}{_OLD}" if args.keep_old else None
    keyfile.rotate_key(path, args.name, key, old_name)
    _show_once("rotated", path, args.name, key, as_json=args.json)


def _list(path: Path, *, as_json: bool) -> None:
    for name, key in keyfile.read_keys(path).items():
        account = key.account
        row = {"name": name, "access_key": key.access_key, "user_id": account.user_id}
        row |= {"display_name": account.display_name, "email": account.email}
        _say(row, f"{name:<20}  {key.access_key:<20}  {account.display_name}", as_json)


def _show_once(done: str, path: Path, name: str, key: Credentials, *, as_json: bool) -> None:
    row = {done: name, "access_key": key.access_key, "secret_key": key.secret_key}
    text = (
        f"{done} [{name}] in {path}; the secret is shown this once:\n"
        f"  access key  {key.access_key}\n  secret key  {key.secret_key}"
    )
    _say(row, text, as_json)


def _say(row: dict[str, str], text: str, as_json: bool) -> None:
    print(json.dumps(row) if as_json else text)

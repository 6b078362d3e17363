"""`rota tlog`."""

import secrets
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.cli.options import settings_from, shared
from rota.errors import ConfigurationError, TlogError

if TYPE_CHECKING:
    from rota.tlog.keys import Verifier
    from rota.tlog.view import Proved


@click.group("tlog")
def command() -> None:
    """Look at the transparency log, prove and verify its entries, all from its files."""


@command.command("key")
@click.argument("name")
def key(name: str) -> None:
    """Print a new private key for a log of this name, such as hub.example.org/tlog."""
    from rota.tlog.keys import private_text, signer

    seed = secrets.token_bytes(32)
    click.echo(private_text(name, seed))
    click.echo(f"public key, for whoever verifies the log: {signer(name, seed).verifier}", err=True)


@command.command("head")
@shared
def head(data: str | None, file: Path | None) -> None:
    """Print where the log ends, what is published of it, and the key that signs it."""
    from rota.acts.key import checkpoint_signer
    from rota.tlog import segments
    from rota.tlog.disk import LocalDisk
    from rota.tlog.publication import Publication
    from rota.tlog.strict import encoded

    settings = settings_from(file, data).settings
    tail = segments.look(LocalDisk(settings.tlog_directory))
    click.echo(f"{tail.position.size} entries, root {encoded(tail.frontier.root())}")
    signer = checkpoint_signer(settings)
    click.echo(f"key {signer.verifier}" if signer else "no key: give the credential tlog-checkpoint-key")
    published = Publication(settings.tlog_directory).checkpoint()
    click.echo(f"\n{published.decode()}" if published else "Nothing is published yet.", nl=not published)


@command.command("show")
@click.argument("index", type=click.IntRange(min=0))
@shared
def show(index: int, data: str | None, file: Path | None) -> None:
    """Print an entry's bytes as they were hashed, and nothing else."""
    sys.stdout.buffer.write(_proved(index, data, file).entry)


@command.command("prove")
@click.argument("index", type=click.IntRange(min=0))
@shared
def prove(index: int, data: str | None, file: Path | None) -> None:
    """Print the self-contained proof that an entry is in the log (c2sp.org/tlog-proof@v1)."""
    sys.stdout.buffer.write(bytes(_proved(index, data, file).proof))


@command.command("verify")
@click.option(
    "--proof",
    "proof_file",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The .tlog-proof file.",
)
@click.option(
    "--entry",
    "entry_file",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The entry's bytes.",
)
@click.option("--key", "key_text", metavar="KEY", help="The log's public key.  [default: this hub's]")
@click.option(
    "--policy",
    "policy_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A policy file (c2sp.org/tlog-policy) instead of a key.",
)
@shared
def verify(  # noqa: PLR0913, PLR0917 - the command's own options
    proof_file: Path,
    entry_file: Path,
    key_text: str | None,
    policy_file: Path | None,
    data: str | None,
    file: Path | None,
) -> None:
    """Check, from these files alone, that this very entry is in a log that you trust."""
    from rota.tlog.policy import Policy, parse_policy
    from rota.tlog.proof import parse_proof, verify_proof

    policy = parse_policy(_read(policy_file)) if policy_file else Policy([_verifier(key_text, data, file)])
    checkpoint = verify_proof(parse_proof(_read(proof_file)), _read(entry_file), policy, int(time.time()))
    click.echo(f"In the log {checkpoint.origin}: proved against its checkpoint of {checkpoint.size} entries.")


@command.command("fsck")
@click.option(
    "--key", "key_text", metavar="KEY", help="The log's public key.  [default: this hub's, where it has one]"
)
@shared
def check(key_text: str | None, data: str | None, file: Path | None) -> None:
    """Hash every record anew, and compare all that is signed and published with it. Changes nothing."""
    from rota.acts.key import checkpoint_signer
    from rota.tlog import fsck
    from rota.tlog.keys import read_verifier
    from rota.tlog.strict import encoded

    settings = settings_from(file, data).settings
    signer = None if key_text else checkpoint_signer(settings)
    log = read_verifier(key_text) if key_text else signer.verifier if signer else None
    report = fsck.check(settings.tlog_directory, log)
    click.echo(f"{report.size} entries, root {encoded(report.root)}; {report.files} published files compared")
    if log is None:
        click.echo("No key: the signatures were not checked. Give the log's public key with --key.", err=True)
    if report.unread:
        click.echo(
            f"{report.unread} bytes at the end are no whole frame: the next append finishes or cuts them."
        )
    if report.problems:
        raise TlogError("\n".join(report.problems))
    click.echo("Everything fits.")


def _proved(index: int, data: str | None, file: Path | None) -> "Proved":
    from rota.tlog.publication import Publication
    from rota.tlog.view import View

    return View(Publication(settings_from(file, data).settings.tlog_directory)).entry(index)


def _verifier(text: str | None, data: str | None, file: Path | None) -> "Verifier":
    from rota.acts.key import checkpoint_signer
    from rota.tlog.keys import read_verifier

    if text:
        return read_verifier(text)
    signer = checkpoint_signer(settings_from(file, data).settings)
    if signer is None:
        raise ConfigurationError("which log? Give its public key with --key, or a policy with --policy")
    return signer.verifier


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlogError(f"{path}: {error.strerror}") from error

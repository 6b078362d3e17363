"""`rota witness`."""

import asyncio
import secrets
from pathlib import Path

import click

from rota.errors import ConfigurationError, MalformedError
from rota.logging import configure


@click.group("witness")
def command() -> None:
    """Witness other hubs' transparency logs: cosign what only ever grows."""


@command.command("key")
@click.argument("name")
def key(name: str) -> None:
    """Print a new private key for a witness of this name, such as example.org/witness."""
    from rota.tlog.keys import COSIGNATURE, private_text, signer

    seed = secrets.token_bytes(32)
    click.echo(private_text(name, seed, COSIGNATURE))
    click.echo(
        f"public key, for the policies of those who trust it: {signer(name, seed, COSIGNATURE).verifier}",
        err=True,
    )


@command.command("serve")
@click.option(
    "--key",
    "key_file",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file with the private key.",
)
@click.option(
    "--log",
    "logs",
    required=True,
    multiple=True,
    metavar="KEY",
    help="A log's public key; several times for several.",
)
@click.option(
    "--directory",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to keep what was cosigned.",
)
@click.option(
    "--address", default="127.0.0.1:8430", show_default=True, metavar="HOST:PORT", help="Where to listen."
)
def serve(key_file: Path, logs: tuple[str, ...], directory: Path, address: str) -> None:
    """Answer add-checkpoint (c2sp.org/tlog-witness) until told to stop.

    Each answer is on the disk before it is given. Lose the directory, and the
    witness forgets what it saw: then give it a new key.
    """
    from rota.settings.load import read_key_file
    from rota.tlog.disk import LocalDisk
    from rota.tlog.keys import COSIGNATURE, Verifier, read_signer, read_verifier
    from rota.tlog.witness import Witness
    from rota.web.witness import serve_witness

    configure("info")
    known: dict[str, list[Verifier]] = {}
    try:
        signer = read_signer(read_key_file(key_file))
        for text in logs:
            verifier = read_verifier(text)
            known.setdefault(verifier.name, []).append(verifier)
    except MalformedError as error:
        raise ConfigurationError(str(error)) from error
    if signer.verifier.kind != COSIGNATURE:
        raise ConfigurationError(
            f"{key_file}: a key that signs logs: `rota witness key NAME` makes one that cosigns"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigurationError(f'"{address}" is not HOST:PORT, as 127.0.0.1:8430')
    try:
        asyncio.run(serve_witness(Witness(signer, known, LocalDisk(directory)), host.strip("[]"), int(port)))
    except OSError as error:
        raise ConfigurationError(f"{address}: {error.strerror}: give another with --address") from error

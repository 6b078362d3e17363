"""Keep one certificate with its key: the one that was given, or a self-signed one made on the host."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rota_certificate
short_description: Keep a certificate and its key in one file
description:
  - With O(pem), keeps that text, once it is proved to hold a certificate for O(name), in force, and its key.
  - Without, makes a self-signed certificate for O(name), valid for ten years, whose key never leaves the
    host. It is made anew when the name changes, and thirty days before its end.
  - Warns thirty days before a certificate that was given ends.
options:
  path:
    description: The file, which root alone reads. Its directory is made.
    type: path
    required: true
  name:
    description: The DNS name or IPv4 address that clients call.
    type: str
    required: true
  pem:
    description: Certificate, chain and key.
    type: str
    default: ""
author: The Rota authors
"""

EXAMPLES = r"""
- name: Keep the certificate
  rota_certificate:
    path: /etc/haproxy/rota/hub.pem
    name: rota.example.org
"""

RETURN = r"""
reason:
  description: Why the file was written; empty when it was not.
  type: str
  returned: always
"""

# The subject of what is made here. The name itself stands in the alternative names, which may be long.
OURS = "Rota self-signed"
DAYS = 3650
SOON = 30
ADDRESS = re.compile(r"[0-9.]+")
DATE = "%b %d %H:%M:%S %Y GMT"


class Refused(Exception):  # noqa: N818 - reads as what happened
    """The certificate that was given cannot serve; the message is for the operator."""


class Certificate(NamedTuple):
    """What a PEM text holds."""

    subject: str
    ends: datetime
    names_it: bool
    key_fits: bool


def openssl(*arguments: str, text: str = "") -> str:
    """Run openssl with this text as its input, and return what it prints.

    Raises:
        subprocess.CalledProcessError: it refused the text.
    """
    argv = ["openssl", *arguments]
    return subprocess.run(argv, check=True, input=text, capture_output=True, text=True).stdout


def read(pem: str, name: str) -> Certificate:
    """Read the first certificate of a PEM text, and its key.

    Raises:
        subprocess.CalledProcessError: it has no certificate or no key without a password.
    """
    check = "-checkip" if ADDRESS.fullmatch(name) else "-checkhost"
    shown = openssl(
        *("x509", "-noout", "-subject", "-nameopt", "RFC2253", "-enddate", "-pubkey", check, name), text=pem
    )
    fields = dict(
        line.split("=", 1) for line in shown.splitlines() if line.startswith(("subject=", "notAfter="))
    )
    public = openssl("pkey", "-passin", "pass:", "-pubout", text=pem)
    return Certificate(
        subject=fields["subject"],
        ends=datetime.strptime(fields["notAfter"], DATE).replace(tzinfo=UTC),
        names_it="does match certificate" in shown,
        key_fits=public.strip() in shown,
    )


def given(pem: str, name: str, now: datetime) -> Certificate:
    """Read what the operator gave.

    Raises:
        Refused: it cannot serve this name now.
    """
    try:
        found = read(pem, name)
    except subprocess.CalledProcessError as error:
        what = " ".join(error.stderr.split()[:12])
        raise Refused(
            "It must hold the certificate, its chain and its key without a password, as PEM. "
            f"openssl says: {what}"
        ) from error
    if not found.key_fits:
        raise Refused("Its key is not the key of its first certificate: put the server's certificate first.")
    if not found.names_it:
        raise Refused(f"It is not for {name}: clients would refuse it.")
    if found.ends <= now:
        raise Refused(f"It ended on {found.ends:%Y-%m-%d}: get it renewed.")
    return found


def stale(pem: str, name: str, now: datetime) -> str:
    """Say why a self-signed certificate must be made anew; nothing when it need not."""
    if not pem:
        return "there is none"
    try:
        found = read(pem, name)
    except subprocess.CalledProcessError:
        return "what is there cannot be read"
    if found.subject != f"CN={OURS}":
        return "the one that is there was given, and none is given any more"
    if not found.names_it:
        return f"the one that is there is not for {name}"
    if not found.key_fits:
        return "the one that is there is not its key's"
    return f"the one that is there ends on {found.ends:%Y-%m-%d}" if (found.ends - now).days < SOON else ""


def make(name: str) -> str:
    """Return a new self-signed certificate and its key."""
    kind = "IP" if ADDRESS.fullmatch(name) else "DNS"
    return openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-sha256"),
        *("-days", str(DAYS), "-subj", f"/CN={OURS}", "-addext", f"subjectAltName={kind}:{name}"),
        *("-keyout", "/dev/stdout", "-out", "/dev/stdout"),
    )


def write(path: Path, pem: str) -> None:
    """Replace the file by one that root alone has ever been able to read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A pattern of its own: what a run that was killed has left is no certificate.
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".rota-")
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(pem)
            stream.flush()
            os.fsync(stream.fileno())
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
            "pem": {"type": "str", "default": "", "no_log": True},
        },
        supports_check_mode=True,
    )
    path, name, pem = Path(module.params["path"]), module.params["name"], module.params["pem"]
    now, reason = datetime.now(UTC), ""
    # Whatever is there: what is no text is no certificate either.
    there = path.read_text(errors="replace") if path.exists() else ""
    if not shutil.which("openssl"):
        # A check of a bare host: the package comes with the run itself.
        if module.check_mode:
            module.exit_json(changed=not there, reason="" if there else "there is none")
        module.fail_json(msg="The program openssl is missing: install the package openssl.")
    try:
        if pem:
            found = given(pem, name, now)
            reason = "another one is given" if pem != there else ""
            if (found.ends - now).days < SOON:
                module.warn(f"The certificate for {name} ends on {found.ends:%Y-%m-%d}: get it renewed.")
        else:
            reason = stale(there, name, now)
        if not reason and path.stat().st_mode & 0o077:
            reason = "others than root could read it"
        if reason and not module.check_mode:
            write(path, pem or make(name))
    except Refused as error:
        module.fail_json(msg=f"The certificate that haproxy_certificate names cannot serve. {error}")
    except subprocess.CalledProcessError as error:
        module.fail_json(msg=f"openssl could not make a certificate for {name}: {error.stderr.strip()}")
    module.exit_json(changed=bool(reason), reason=reason)


if __name__ == "__main__":
    main()

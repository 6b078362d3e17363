"""Keep one role and one database of a PostgreSQL server, and say what the server still waits for."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rota_postgresql
short_description: Keep a role with its password and a database that it owns
description:
  - Makes what is missing and corrects the role's password, its right to log in, and the database's owner. It
    drops nothing, and touches no other role and no other database.
  - Asks C(psql) as the user postgres, over the server's own socket. The server is sent the password's SCRAM
    verifier only, on standard input, so that no command line and no log holds the password.
  - Says which settings wait for a restart, and fails when the server could not read its file of access rules.
options:
  user:
    description: The role.
    type: str
    required: true
  password:
    description: Its password, in printable ASCII.
    type: str
    required: true
  database:
    description: The database; made in UTF-8, with the C order of characters.
    type: str
    required: true
  psql:
    description: The program psql of the server's own release.
    type: path
    required: true
  port:
    description: The server's port, which names its socket.
    type: int
    default: 5432
  socket:
    description: The directory of its socket.
    type: path
    default: /run/postgresql
author: The Rota authors
"""

EXAMPLES = r"""
- name: Keep the role and the database
  rota_postgresql:
    psql: /usr/lib/postgresql/17/bin/psql
    user: rota
    password: "{{ password }}"
    database: rota
"""

RETURN = r"""
actions:
  description: What was, or would be, done.
  type: list
  elements: str
  returned: success
pending_restart:
  description: Names of settings whose new value waits for a restart of the server.
  type: list
  elements: str
  returned: success
"""

SUPERUSER = "postgres"
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LC_ALL": "C.UTF-8",
    # Whatever the server logs, it does not log these statements, nor those of them that fail.
    "PGOPTIONS": "-c log_statement=none -c log_min_error_statement=panic -c log_min_duration_statement=-1",
    "PGCONNECT_TIMEOUT": "10",
}
ITERATIONS = 4096
# Whatever the locale was when the server was installed.
NEW = "TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8'"
# The first line has this session compare the server's files with what it runs; a reload, which does so as
# well, may still be under way. What the command line sets waits for nothing.
QUESTION = """
DO $$ BEGIN PERFORM * FROM pg_file_settings; END $$;
SELECT json_build_object(
  'verifier', (SELECT rolpassword FROM pg_authid WHERE rolname = :'user'),
  'login', (SELECT rolcanlogin FROM pg_roles WHERE rolname = :'user'),
  'owner', (SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = :'database'),
  'encoding', (SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = :'database'),
  'faults', (SELECT coalesce(json_agg('line ' || line_number || ': ' || error), '[]')
             FROM pg_hba_file_rules WHERE error IS NOT NULL),
  'pending', (SELECT coalesce(json_agg(name ORDER BY name), '[]') FROM pg_settings
              WHERE pending_restart AND source <> 'command line'));
"""


class Found(NamedTuple):
    """A role and a database as the server has them; None stands for what is not there."""

    verifier: str | None = None
    login: bool | None = None
    owner: str | None = None
    encoding: str | None = None
    faults: list[str] = []  # noqa: RUF012 - never changed
    pending: list[str] = []  # noqa: RUF012 - never changed


class Step(NamedTuple):
    """What to do, and the statement that does it."""

    action: str
    statement: str


class Refused(Exception):  # noqa: N818 - reads as what happened
    """The server cannot be what is asked for; the message is for the operator."""


def verifier(password: str, salt: bytes, iterations: int = ITERATIONS) -> str:
    """Compute what PostgreSQL stores for a password (RFC 5803)."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    client = hmac.digest(salted, b"Client Key", "sha256")
    stored, server = hashlib.sha256(client).digest(), hmac.digest(salted, b"Server Key", "sha256")
    texts = [b64encode(each).decode() for each in (salt, stored, server)]
    return f"SCRAM-SHA-256${iterations}:{texts[0]}${texts[1]}:{texts[2]}"


def matches(password: str, stored: str | None) -> bool:
    """Say whether a stored verifier is this password's. What is of another kind is not."""
    kind, *rest = (stored or "").split("$")
    if kind != "SCRAM-SHA-256" or stored is None:
        return False
    iterations, salt = rest[0].split(":")
    return hmac.compare_digest(stored, verifier(password, b64decode(salt), int(iterations)))


def name(text: str) -> str:
    """Quote an identifier."""
    return '"' + text.replace('"', '""') + '"'


def plan(found: Found, user: str, password: str, database: str) -> list[Step]:
    """Say what to do.

    Raises:
        Refused: the database is there and cannot serve.
    """
    steps = []
    secret = f"PASSWORD '{verifier(password, secrets.token_bytes(16))}'"
    if found.login is None:
        steps.append(Step(f"make the role {user}", f"CREATE ROLE {name(user)} LOGIN {secret};"))
    else:
        if not found.login:
            steps.append(Step(f"let the role {user} log in", f"ALTER ROLE {name(user)} LOGIN;"))
        if not matches(password, found.verifier):
            steps.append(Step(f"set the password of the role {user}", f"ALTER ROLE {name(user)} {secret};"))
    if found.owner is None:
        made = f"CREATE DATABASE {name(database)} OWNER {name(user)} {NEW};"
        steps.append(Step(f"make the database {database}", made))
    elif found.encoding != "UTF8":
        raise Refused(
            f"The database {database} is in the encoding {found.encoding}, and must be in UTF8: "
            "name another, or dump it and restore it into one in UTF8."
        )
    elif found.owner != user:
        given = f"ALTER DATABASE {name(database)} OWNER TO {name(user)};"
        steps.append(Step(f"give the database {database} to the role {user}", given))
    return steps


def become() -> dict[str, Any]:
    """Say for whom root runs psql: the server believes the user of the process, so another cannot ask it."""
    if os.geteuid() != 0:
        return {}
    return {"user": SUPERUSER, "group": SUPERUSER, "extra_groups": []}


class Server:
    """The server, asked by psql as its superuser. Each call raises CalledProcessError when it is refused."""

    def __init__(self, psql: str, socket: str, port: int) -> None:
        self.argv = [psql, "--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"]
        self.argv += [f"--host={socket}", f"--port={port}", f"--username={SUPERUSER}", "--dbname=postgres"]

    def run(self, statements: str, **variables: str) -> str:
        done = subprocess.run(
            [*self.argv, *(f"--set={key}={value}" for key, value in variables.items()), "--file=-"],
            input=statements,
            check=True,
            capture_output=True,
            text=True,
            cwd="/",
            env=ENVIRONMENT,
            **become(),
        )
        return str(done.stdout)

    def look(self, user: str, database: str) -> Found:
        return Found(**json.loads(self.run(QUESTION, user=user, database=database)))


def foresee(server: Server, user: str, database: str) -> Found:
    """Look as well as a check can: a host may have no server yet, or one that does not run."""
    try:
        return server.look(user, database) if Path(server.argv[0]).exists() else Found()
    except subprocess.CalledProcessError:
        return Found()


def keep(server: Server, given: dict[str, Any], *, act: bool) -> tuple[list[str], list[str]]:
    """Bring the role and the database to their state; give what was done, and what waits for a restart.

    Raises:
        Refused: the server cannot be what is asked for.
        CalledProcessError: psql failed.
    """
    user, password, database = given["user"], given["password"], given["database"]
    if not (password.isascii() and password.isprintable() and password):
        raise Refused(f"The password of the role {user} must be printable ASCII, and not empty.")
    if act and not Path(given["psql"]).exists():
        raise Refused(f"{given['psql']} is not there: is PostgreSQL installed?")
    found = server.look(user, database) if act else foresee(server, user, database)
    if found.faults:
        raise Refused(f"PostgreSQL cannot read its file of access rules: {'; '.join(found.faults)}")
    steps = plan(found, user, password, database)
    if steps and act:
        server.run("\n".join(step.statement for step in steps))
    return [step.action for step in steps], found.pending


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "user": {"type": "str", "required": True},
            "password": {"type": "str", "required": True, "no_log": True},
            "database": {"type": "str", "required": True},
            "psql": {"type": "path", "required": True},
            "port": {"type": "int", "default": 5432},
            "socket": {"type": "path", "default": "/run/postgresql"},
        },
        supports_check_mode=True,
    )
    given = module.params
    server = Server(given["psql"], given["socket"], given["port"])
    try:
        actions, pending = keep(server, given, act=not module.check_mode)
    except Refused as error:
        module.fail_json(msg=str(error))
    except subprocess.CalledProcessError as error:
        # psql shows the line that failed, and a verifier may stand in it.
        said = [line for line in error.stderr.strip().splitlines() if "PASSWORD" not in line]
        module.fail_json(msg=f"PostgreSQL refused: {' '.join(said)}")
    diff = {"before": "", "after": "".join(f"{action}\n" for action in actions)}
    module.exit_json(changed=bool(actions), actions=actions, pending_restart=pending, diff=diff)


if __name__ == "__main__":
    main()

"""What an app may be called."""

import re

from rota.errors import InputError

_APP = re.compile(r"[a-z][a-z0-9-]{0,22}")


def checked_app(app: str) -> str:
    """Return an app's name. Raises InputError for what is none."""
    if not _APP.fullmatch(app):
        raise InputError(
            f"{app[:60]!r} is no app's name.",
            "Write it as shop: lower-case letters, digits and -, 23 at most.",
        )
    return app

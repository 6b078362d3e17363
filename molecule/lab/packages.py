"""The Debian packages that the controller needs to make hosts."""

import os

from lab import recipe
from lab.commands import require_root, run


def missing() -> list[str]:
    """Return which of them are not installed."""
    asked = ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n", *recipe.CONTROLLER]
    lines = run(asked, check=False).stdout.splitlines()
    installed = {line.split()[0] for line in lines if line.endswith(" installed")}
    return [package for package in recipe.CONTROLLER if package not in installed]


def install() -> list[str]:
    """Install what is missing, and return it."""
    wanted = missing()
    if wanted:
        require_root()
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run(["apt-get", "--quiet=2", "update"], env=quiet)
        run(["apt-get", "--quiet=2", "--yes", "--no-install-recommends", "install", *wanted], env=quiet)
    return wanted

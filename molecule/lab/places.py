"""Where the lab keeps things on disk, all below one root outside the clone."""

import os
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError

DEFAULT_ROOT = "/var/lib/rota-lab"
VARIABLE = "ROTA_LAB_ROOT"


@dataclass(frozen=True)
class Places:
    """The lab's directories."""

    root: Path

    @classmethod
    def from_environment(cls) -> "Places":
        """Return the places below $ROTA_LAB_ROOT; raise LabError if that cannot be used."""
        text = os.environ.get(VARIABLE) or DEFAULT_ROOT
        root = Path(text)
        # Overlay mount options and nspawn's bind options split at these.
        if not root.is_absolute() or set(text) & set(":,\\ \n"):
            raise LabError(f'{VARIABLE} is "{text}": give an absolute path without spaces, ":", "," or "\\"')
        return cls(root)

    @property
    def images(self) -> Path:
        """Baked trees, one directory for each key."""
        return self.root / "images"

    @property
    def key(self) -> Path:
        """The private ssh key that opens every host; its public half is beside it in ``.pub``."""
        return self.root / "id_lab"

    def lab(self, lab: str) -> Path:
        """Return all that one lab keeps on disk."""
        return self.root / "labs" / lab

    def control(self, lab: str) -> Path:
        """Return the directory for sockets of ssh connections into a lab."""
        return self.lab(lab) / ".ssh"

    def host(self, lab: str, host: str) -> Path:
        """Return what one host keeps: its disk, its description, its console."""
        return self.lab(lab) / host

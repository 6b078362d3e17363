"""Fetches what pages need of others, from the npm registry, pinned by hash; nothing is built.

    python3 tools/vendor.py

The files are committed. This is run after a pin was changed, and writes only what fits the pins.
"""

import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

ASSETS = Path(__file__).resolve().parent.parent / "app" / "rota" / "web" / "assets"


@dataclass(frozen=True)
class File:
    """One file: its name in the package, its name here, and the SHA-512 of its bytes, in hex."""

    source: str
    name: str
    sha512: str


@dataclass(frozen=True)
class Package:
    """One package. `integrity` is the registry's own, of the whole archive."""

    name: str
    version: str
    integrity: str
    files: tuple[File, ...]


PACKAGES = (
    Package(
        "htmx.org",
        "2.0.11",
        "sha512-Thx/WtpeOQqSrqBCw/A1cwGJGg4UrVa3+sW0GmrM3p4gJgO89ecH4qtbnyzDDWFvBTqjnIMCgELTNt636dtamA==",
        (
            File(
                "package/dist/htmx.min.js",
                "htmx.min.js",
                "61d1f2e85ce30f8aa8c88ff258621bb0a9c91def7cafdea7a7d5de629de8bc52"
                "fed2c34ffcd6c3ad89522c3af96ba35d8b9b118bd1a0263facb84ef22de50c35",
            ),
            File(
                "package/LICENSE",
                "htmx.LICENSE",
                "9117fe29d9f45be2368966384e9230d72de5cfdf1e72ee7cd4ef077a056b98f4"
                "1c2e83db94790448ce803d4042c5ab1fe9edc13a5a10299e0b439bcdc3f43433",
            ),
        ),
    ),
)


def main() -> int:
    """Write every file; return 1 where something is not what its pin says."""
    for package in PACKAGES:
        with tempfile.TemporaryDirectory() as directory:
            archive = _fetch(package, Path(directory))
            found = integrity(archive.read_bytes())
            if found != package.integrity:
                print(f"{package.name} {package.version} is {found}, and not as pinned", file=sys.stderr)
                return 1
            with tarfile.open(archive) as tar:
                for file in package.files:
                    member = tar.extractfile(file.source)
                    data = member.read() if member else b""
                    if digest(data) != file.sha512:
                        print(f"{file.source} is {digest(data)}, and not as pinned", file=sys.stderr)
                        return 1
                    (ASSETS / file.name).write_bytes(data)
                    print(f"{file.name}: {len(data)} bytes of {package.name} {package.version}")
    return 0


def integrity(data: bytes) -> str:
    """Return an archive's hash as the registry writes it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()


def digest(data: bytes) -> str:
    """Return a file's hash, in hex."""
    return hashlib.sha512(data).hexdigest()


def _fetch(package: Package, into: Path) -> Path:
    argv = ["npm", "pack", f"{package.name}@{package.version}", "--silent", "--pack-destination", str(into)]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    (archive,) = into.glob("*.tgz")
    return archive


if __name__ == "__main__":
    sys.exit(main())

"""The certificates that HAProxy serves: a file for each name, and the same at run time."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import structlog

from rota.drivers.files import replace_file
from rota.routing.proxy import Certificate
from rota.routing.runtime import ProxyError, Runtime

SUFFIX = ".pem"

_SHA1 = re.compile(r"^SHA1 FingerPrint: ([0-9A-F]{40})$", re.MULTILINE)

log = structlog.get_logger("rota.routing")


class Pems:
    """A directory that HAProxy reads when it starts, and its memory meanwhile."""

    def __init__(self, directory: Path, runtime: Runtime) -> None:
        """Keep the files here, and tell this proxy."""
        self._directory = directory
        self._runtime = runtime
        self._failed: dict[str, str] = {}

    async def apply(self, wanted: Sequence[Certificate]) -> None:
        """Have these served and no others. One that is not taken is logged, and the one before stays."""
        failed: dict[str, str] = {}
        loaded = await self._loaded()
        for each in wanted:
            path = self._directory / f"{each.name}{SUFFIX}"
            new = await asyncio.to_thread(replace_file, path, each.pem)
            try:
                if new or path not in loaded or not await self._same(path, each.pem):
                    await self._load(path, each.pem, known=path in loaded)
            except ProxyError as error:
                failed[each.name] = str(error)
        kept = {self._directory / f"{each.name}{SUFFIX}" for each in wanted}
        there = set(await asyncio.to_thread(lambda: list(self._directory.glob(f"*{SUFFIX}"))))
        for path in sorted((loaded | there) - kept):
            await self._unload(path)
        for name, reason in failed.items():
            if self._failed.get(name) != reason:
                log.error("certificate not served", name=name, reason=reason)
        self._failed = failed

    async def _loaded(self) -> set[Path]:
        shown = (await self._runtime.ask("show ssl cert")).splitlines()
        return {Path(line) for line in shown if Path(line).parent == self._directory}

    async def _same(self, path: Path, pem: str) -> bool:
        from cryptography import x509  # noqa: PLC0415 - a hub without certificates never loads it
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415

        found = _SHA1.search(await self._runtime.ask(f"show ssl cert {path}"))
        own = x509.load_pem_x509_certificate(pem.encode()).fingerprint(hashes.SHA1())  # noqa: S303 - as shown
        return found is not None and found[1].lower() == own.hex()

    async def _load(self, path: Path, pem: str, *, known: bool) -> None:
        if not known:
            await self._expect(f"new ssl cert {path}", "New empty")
        lines = "".join(f"{line}\n" for line in pem.splitlines() if line.strip())
        try:
            await self._expect(f"set ssl cert {path} <<\n{lines}", "Transaction")
            await self._expect(f"commit ssl cert {path}", "Success!")
            if not known:
                await self._expect(f"add ssl crt-list {self._directory} {path}", "Success!")
        except ProxyError:
            await self._runtime.ask(f"abort ssl cert {path}")
            if not known:
                await self._runtime.ask(f"del ssl cert {path}")
            raise

    async def _unload(self, path: Path) -> None:
        await self._runtime.ask(f"del ssl crt-list {self._directory} {path}")
        await self._runtime.ask(f"del ssl cert {path}")
        await asyncio.to_thread(path.unlink, missing_ok=True)

    async def _expect(self, order: str, word: str) -> None:
        answer = await self._runtime.ask(order)
        if word not in answer:
            raise ProxyError(f"the proxy does not take the certificate: {' '.join(answer.split())[:300]}")

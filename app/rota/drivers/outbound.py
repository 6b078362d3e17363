"""The one client for addresses that somebody else gave: bounded, and never to a private place.

The name is resolved once. Each socket is made for one address of the answer,
and that very address is judged before it is made, so that neither a spelling
nor a second answer of the name server leads elsewhere. TLS verifies the name.
"""

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rota import __version__
from rota.drivers.addresses import networks, refusal
from rota.errors import InputError, RotaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import aiohttp

WITHIN = 3.0  # seconds for one request, from the name to the answer
ANSWER = 65_536  # bytes of an answer that may come in behind its status; none are looked at
LONGEST_URL = 2000
RESOLVERS = 32  # names that may be looked up at once, beside everything else that runs in threads


class OutboundError(RotaError):
    """No answer came; the message says why, and repeats nothing of the address but its host."""


class _RefusedError(OSError):
    """The address is not one for us."""


@dataclass(frozen=True)
class Reply:
    """An answer's status, and the seconds until it was here."""

    status: int
    seconds: float


def checked_url(url: str) -> str:
    """Return an address that can be sent to. Raises InputError."""
    remedy = "Write https://HOST/PATH, with no user and no #."
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InputError(f"This is no address: {error}.", remedy) from error
    if parts.scheme not in ("http", "https") or not host:
        raise InputError("The address must begin with https:// or http:// and name a host.", remedy)
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise InputError("The address holds a user or a fragment, which nobody would be sent.", remedy)
    if len(url) > LONGEST_URL or not url.isascii() or any(sign in "\\\x7f" or sign <= " " for sign in url):
        raise InputError("The address is too long, or holds signs that must be written as %XX.", remedy)
    return url


def origin_of(url: str) -> str:
    """Return an address without its path, which may hold what only its receiver knows."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


class Outbound:
    """POSTs, over a connection of its own each time. Opened with the first request."""

    def __init__(self, allow: "Iterable[str]") -> None:
        """Send to public addresses and to these networks."""
        self._allowed = networks(allow)
        self._session: aiohttp.ClientSession | None = None
        self._threads: ThreadPoolExecutor | None = None

    async def post(self, url: str, headers: "Mapping[str, str]", body: bytes) -> Reply:
        """Send, follow no redirect, use no proxy, and return the status. Raises OutboundError."""
        import aiohttp  # noqa: PLC0415 - a hub without webhooks never loads it

        session = self._session or self._open()
        began = time.perf_counter()
        try:
            async with (
                asyncio.timeout(WITHIN),
                session.post(url, data=body, headers=headers, allow_redirects=False) as answer,
            ):
                return Reply(answer.status, time.perf_counter() - began)
        except TimeoutError:
            raise OutboundError(f"no answer within {WITHIN:g} s") from None
        except aiohttp.ClientConnectorDNSError:
            raise OutboundError(f"the name {urlsplit(url).hostname} is not known") from None
        except aiohttp.ClientConnectorCertificateError as error:
            raise OutboundError(f"TLS: {error.certificate_error}") from error
        except aiohttp.ClientConnectorError as error:
            raise OutboundError(f"no connection: {_why(error.os_error)}") from error
        except (aiohttp.InvalidURL, ValueError):
            raise OutboundError("its address cannot be sent to") from None
        except (aiohttp.ClientError, OSError) as error:
            raise OutboundError(f"no answer that can be read: {type(error).__name__}") from error

    async def close(self) -> None:
        """Let go of what is open."""
        if self._session is not None:
            await self._session.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        self._session = self._threads = None

    def _open(self) -> "aiohttp.ClientSession":
        import aiohttp  # noqa: PLC0415

        from rota.drivers.names import Resolver  # noqa: PLC0415

        self._threads = ThreadPoolExecutor(RESOLVERS, thread_name_prefix="outbound-name")
        connector = aiohttp.TCPConnector(
            resolver=Resolver(self._threads),
            socket_factory=self._socket,
            use_dns_cache=False,
            force_close=True,
            limit=0,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"rota/{__version__}"},
            auto_decompress=False,
            read_bufsize=ANSWER // 2,  # twice as many make it stop reading
            trust_env=False,
            timeout=aiohttp.ClientTimeout(),
        )
        return self._session

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Make the socket for one address, or refuse to."""
        family, kind, protocol, _, place = info
        what = refusal(place[0], self._allowed)
        if what:
            raise _RefusedError(f"{place[0]} is {what}, and [webhooks] allow does not name it")
        return socket.socket(family, kind, protocol)


def _why(error: OSError) -> str:
    if isinstance(error, _RefusedError):
        return str(error)
    return error.strerror or str(error) or type(error).__name__

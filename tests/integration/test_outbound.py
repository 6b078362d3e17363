"""The one client for addresses that somebody else gave, against real sockets and hostile servers."""

import asyncio
import contextlib
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.receiver import Receiver, Serve, receiving, serving, status

from rota.drivers import outbound as bounds
from rota.drivers.outbound import Outbound, OutboundError
from rota.errors import InputError

LOOPBACK = ("127.0.0.0/8", "::1/128")

# Whatever some program somewhere takes for this machine, or for a way to its own network.
SPELLINGS = [
    "127.0.0.1",
    "127.0.0.2",
    "127.255.255.254",
    "127.1",
    "127.0.1",
    "2130706433",
    "017700000001",
    "0x7f000001",
    "0x7f.1",
    "0x7f.0x0.0x0.0x1",
    "0177.0.0.1",
    "0177.0.0.01",
    "127.0.0.01",
    "127.0.0.1.",
    "0",
    "0.0.0.0",  # noqa: S104 - nobody listens there
    "0.0.0.1",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "LocalHost",
    "localhost.localdomain",
    "ip6-localhost",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[0000:0000:0000:0000:0000:0000:0000:0001]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:0:127.0.0.1]",
    "[::127.0.0.1]",
    "[::ffff:0.0.0.0]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::127.0.0.1]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::]",
    "[fe80::1]",
    "[fe80::1%25lo]",
    "%31%32%37.0.0.1",
    "\uff11\uff12\uff17.0.0.1",
    "127\u30020\u30020\u30021",
    "\u2460\u2461\u2466.0.0.1",
]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as started:
        yield started


@contextlib.asynccontextmanager
async def client(*allow: str) -> AsyncIterator[Outbound]:
    opened = Outbound(allow)
    yield opened
    await opened.close()


@pytest.mark.parametrize("host", SPELLINGS)
async def test_no_spelling_of_this_machine_is_sent_to(host: str, receiver: Receiver) -> None:
    async with client() as outbound:
        with pytest.raises((OutboundError, InputError)):
            await outbound.post(f"http://{host}:{receiver.port}/", {}, b"{}")
    assert receiver.connections == 0


async def test_a_network_that_the_operator_names_is(receiver: Receiver) -> None:
    async with client(*LOOPBACK) as outbound:
        reply = await outbound.post(receiver.url, {"webhook-id": "1"}, b"{}")
    assert reply.status == 204
    assert 0 < reply.seconds < 3
    (got,) = receiver.received
    assert got.body == b"{}"
    assert got.headers["user-agent"].startswith("rota/")


def answers(monkeypatch: pytest.MonkeyPatch, *each: str) -> list[str]:
    """Have the name server give these addresses, one answer after the other; return the names asked for."""
    asked: list[str] = []

    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        address = each[min(len(asked), len(each)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr("rota.drivers.names.socket.getaddrinfo", getaddrinfo)
    return asked


async def test_a_name_is_resolved_once_and_that_answer_is_judged(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server that gives a public address first and a private one then gets no second question."""
    asked = answers(monkeypatch, "127.0.0.1", "10.0.0.1")
    async with client("127.0.0.1/32") as outbound:
        reply = await outbound.post(f"http://rebind.test:{receiver.port}/", {}, b"{}")
    assert (reply.status, asked) == (204, ["rebind.test"])
    asked = answers(monkeypatch, "10.0.0.1", "127.0.0.1")
    async with client("127.0.0.1/32") as outbound:
        with pytest.raises(OutboundError, match=r"10\.0\.0\.1 is private"):
            await outbound.post(f"http://rebind.test:{receiver.port}/", {}, b"{}")
    assert asked == ["rebind.test"]
    assert receiver.connections == 1


async def test_a_redirect_is_an_answer_and_not_followed(receiver: Receiver) -> None:
    async with receiving() as elsewhere:

        async def redirect(_: object) -> bytes:
            return status(307, f"Location: {elsewhere.url}")

        receiver.answer = redirect
        async with client(*LOOPBACK) as outbound:
            assert (await outbound.post(receiver.url, {}, b"{}")).status == 307
        assert elsewhere.connections == 0


async def test_no_proxy_of_the_environment_is_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with client(*LOOPBACK) as outbound:
            await outbound.post(receiver.url, {}, b"{}")
        assert (proxy.connections, receiver.connections) == (0, 1)


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def slow_headers(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(10_000):
        writer.write(b"x-%d: y\r\n" % number)
        await writer.drain()
        await asyncio.sleep(0.02)


async def endless_headers(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(1_000_000):
        writer.write(b"x-%d: %s\r\n" % (number, b"y" * 4000))
        await writer.drain()


async def gigantic_header(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nx: ")
    for _part in range(1_000):
        writer.write(b"y" * 1_000_000)
        await writer.drain()


async def no_http(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example.org ESMTP\r\n")
    await writer.drain()


async def gone(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


@pytest.mark.parametrize(
    ("serve", "reason"),
    [
        (silent, r"no answer within 0\.5 s"),
        (slow_headers, r"no answer"),
        (endless_headers, r"no answer that can be read"),
        (gigantic_header, r"no answer that can be read"),
        (no_http, r"no answer that can be read"),
        (gone, r"no answer that can be read"),
    ],
)
async def test_a_hostile_server_costs_a_bounded_time_and_is_not_quoted(
    serve: Serve, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "WITHIN", 0.5)
    async with serving(serve) as port, client(*LOOPBACK) as outbound:
        began = time.monotonic()
        with pytest.raises(OutboundError, match=reason) as failed:
            await outbound.post(f"http://127.0.0.1:{port}/secret-path", {}, b"{}")
        assert time.monotonic() - began < 2
    assert "secret-path" not in str(failed.value)
    assert "ESMTP" not in str(failed.value)


async def test_an_endless_body_is_not_read() -> None:
    sent = 0

    async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _chunk in range(10_000):
            writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            sent += 65536
            await writer.drain()

    async with serving(endless) as port, client(*LOOPBACK) as outbound:
        reply = await outbound.post(f"http://127.0.0.1:{port}/", {}, b"{}")
    assert reply.status == 200
    assert sent < 16_000_000, "what lies in the sockets' buffers, and no more"


async def test_a_port_where_nobody_listens_says_so() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        async with client(*LOOPBACK) as outbound:
            with pytest.raises(OutboundError, match="no connection: "):
                await outbound.post(f"http://127.0.0.1:{closed.getsockname()[1]}/", {}, b"{}")


async def test_a_name_that_is_not_known_says_so() -> None:
    async with client() as outbound:
        with pytest.raises(OutboundError, match=r"the name nowhere\.invalid is not known"):
            await outbound.post("http://nowhere.invalid/", {}, b"{}")


async def test_tls_verifies_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate for another name, signed by somebody we do not know, is refused."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    await asyncio.to_thread(
        subprocess.run,
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-days", "1", "-subj", "/CN=good.test", "-addext", "subjectAltName=DNS:good.test",
            "-keyout", str(key), "-out", str(certificate),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    served = 0

    async def thanks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        await reader.readuntil(b"\r\n\r\n")
        served += 1
        writer.write(status(200))
        await writer.drain()

    async with serving(thanks, tls) as port:
        answers(monkeypatch, "127.0.0.1")
        async with client(*LOOPBACK) as outbound:
            with pytest.raises(OutboundError, match="TLS"):
                await outbound.post(f"https://good.test:{port}/", {}, b"{}")
        trusting = ssl.create_default_context(cafile=str(certificate))
        monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", trusting)
        async with client(*LOOPBACK) as outbound:
            assert (await outbound.post(f"https://good.test:{port}/", {}, b"{}")).status == 200
            with pytest.raises(OutboundError, match="TLS"):
                await outbound.post(f"https://other.test:{port}/", {}, b"{}")
    assert served == 1

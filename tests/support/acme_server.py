"""A small certificate authority that speaks ACME (RFC 8555), with HTTP-01, as strictly as a real one."""

import base64
import contextlib
import hashlib
import http.client
import json
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

Json = dict[str, Any]


@dataclass
class Order:
    """One order: the names are one, and the challenge is HTTP-01."""

    name: str
    account: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    status: str = "pending"
    error: str = ""
    certificate: str = ""


class AcmeServer(ThreadingHTTPServer):
    """Asks every name at one port of loopback, whatever it is, and signs for `lasts` what it finds."""

    daemon_threads = True

    def __init__(self, ask: int) -> None:
        self.ask_port = ask
        self.lasts = timedelta(days=90)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.nonces: set[str] = set()
        self.accounts: dict[str, Json] = {}
        self.orders: list[Order] = []
        self.refuse = ""
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @classmethod
    @contextlib.contextmanager
    def serving(cls, ask: int) -> Iterator["AcmeServer"]:
        """Give one that runs until the end of the block."""
        server = cls(ask)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def look(self, order: Order) -> None:
        """Ask the name for its answer, as the real ones do: over HTTP, without TLS."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ask_port, timeout=5)
        path = f"/.well-known/acme-challenge/{order.token}"
        connection.request("GET", path, headers={"Host": order.name})
        answer = connection.getresponse()
        found = answer.read().decode().strip()
        connection.close()
        wanted = f"{order.token}.{_thumbprint(self.accounts[order.account])}"
        order.status = "ready" if (answer.status, found) == (200, wanted) else "invalid"
        order.error = "" if order.status == "ready" else f"{order.name} answered {answer.status}"

    def sign(self, order: Order, request: bytes) -> None:
        """Sign a request for the ordered name and no other."""
        csr = x509.load_der_x509_csr(request)
        asked = csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert asked.get_values_for_type(x509.DNSName) == [order.name]
        assert csr.is_signature_valid
        now = datetime.now(UTC)
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])
        made = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(issuer)
            .public_key(csr.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=1))
            .not_valid_after(now + self.lasts)
            .add_extension(asked, critical=True)
            .sign(self.key, hashes.SHA256())
        )
        order.certificate, order.status = made.public_bytes(Encoding.PEM).decode(), "valid"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: AcmeServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""

    def do_HEAD(self) -> None:
        self._answer(200, None)

    def do_GET(self) -> None:
        url = self.server.url
        names = ("newNonce", "newAccount", "newOrder", "revokeCert", "keyChange")
        self._answer(200, {name: f"{url}/{name}" for name in names})

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        protected = json.loads(_decoded(message["protected"]))
        payload = json.loads(_decoded(message["payload"]) or b"null")
        if protected["nonce"] not in self.server.nonces or protected["url"] != self.server.url + self.path:
            self._refuse("badNonce", "an unknown nonce, or another address")
            return
        self.server.nonces.discard(protected["nonce"])
        known = protected.get("kid")
        jwk = self.server.accounts[known] if known else protected["jwk"]
        if not _signed(message, jwk):
            self._refuse("unauthorized", "not signed by the account")
            return
        kind, _, number = self.path.strip("/").partition("/")
        getattr(self, f"_{kind}")(known, jwk, payload, int(number or 0))

    def _newAccount(self, _: str | None, jwk: Json, payload: Json, __: int) -> None:  # noqa: N802
        assert payload["termsOfServiceAgreed"]
        uri = f"{self.server.url}/account/{_thumbprint(jwk)}"
        status = 200 if uri in self.server.accounts else 201
        self.server.accounts[uri] = jwk
        self._answer(status, {"status": "valid"}, Location=uri)

    def _newOrder(self, known: str, _: Json, payload: Json, __: int) -> None:  # noqa: N802
        if self.server.refuse:
            self._refuse("rejectedIdentifier", self.server.refuse)
            return
        ((name),) = (each["value"] for each in payload["identifiers"])
        self.server.orders.append(Order(name, known))
        number = len(self.server.orders) - 1
        self._answer(201, self._shown(number), Location=f"{self.server.url}/order/{number}")

    def _order(self, _: str, __: Json, ___: Json, number: int) -> None:
        self._answer(200, self._shown(number), Location=f"{self.server.url}/order/{number}")

    def _authorization(self, _: str, __: Json, ___: Json, number: int) -> None:
        order = self.server.orders[number]
        status = {"ready": "valid", "valid": "valid"}.get(order.status, order.status)
        self._answer(
            200,
            {
                "status": status,
                "identifier": {"type": "dns", "value": order.name},
                "challenges": [self._challenge_shown(number)],
            },
        )

    def _challenge(self, _: str, __: Json, ___: Json, number: int) -> None:
        self.server.look(self.server.orders[number])
        self._answer(
            200, self._challenge_shown(number), Link=f'<{self.server.url}/authorization/{number}>;rel="up"'
        )

    def _finalize(self, _: str, __: Json, payload: Json, number: int) -> None:
        self.server.sign(self.server.orders[number], _decoded(payload["csr"]))
        self._answer(200, self._shown(number), Location=f"{self.server.url}/order/{number}")

    def _certificate(self, _: str, __: Json, ___: Json, number: int) -> None:
        data = self.server.orders[number].certificate.encode()
        self._send(200, data, "application/pem-certificate-chain", {})

    def _shown(self, number: int) -> Json:
        order, url = self.server.orders[number], self.server.url
        shown: Json = {
            "status": order.status,
            "identifiers": [{"type": "dns", "value": order.name}],
            "authorizations": [f"{url}/authorization/{number}"],
            "finalize": f"{url}/finalize/{number}",
        }
        return {**shown, **({"certificate": f"{url}/certificate/{number}"} if order.certificate else {})}

    def _challenge_shown(self, number: int) -> Json:
        order = self.server.orders[number]
        status = {"ready": "valid"}.get(order.status, order.status)
        error = {"type": "urn:ietf:params:acme:error:unauthorized", "detail": order.error}
        shown: Json = {
            "type": "http-01",
            "url": f"{self.server.url}/challenge/{number}",
            "status": status,
            "token": order.token,
        }
        return {**shown, **({"error": error} if order.error else {})}

    def _refuse(self, kind: str, detail: str) -> None:
        document = {"type": f"urn:ietf:params:acme:error:{kind}", "detail": detail}
        self._send(400, json.dumps(document).encode(), "application/problem+json", {})

    def _answer(self, status: int, document: Json | None, **headers: str) -> None:
        self._send(
            status, b"" if document is None else json.dumps(document).encode(), "application/json", headers
        )

    def _send(self, status: int, data: bytes, media: str, headers: dict[str, str]) -> None:
        nonce = secrets.token_urlsafe(12)
        self.server.nonces.add(nonce)
        self.send_response(status)
        for name, value in {**headers, "Replay-Nonce": nonce, "Content-Type": media}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _signed(message: Json, jwk: Json) -> bool:
    numbers = ec.EllipticCurvePublicNumbers(
        int.from_bytes(_decoded(jwk["x"])), int.from_bytes(_decoded(jwk["y"])), ec.SECP256R1()
    )
    raw = _decoded(message["signature"])
    signature = encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))
    body = f"{message['protected']}.{message['payload']}".encode()
    try:
        numbers.public_key().verify(signature, body, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def _thumbprint(jwk: Json) -> str:
    text = json.dumps({name: jwk[name] for name in ("crv", "kty", "x", "y")}, separators=(",", ":"))
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

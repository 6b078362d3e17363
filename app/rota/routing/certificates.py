"""Certificates as people and authorities give them: read, checked, and put as the proxy takes them. Pure."""

import itertools
import ssl
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from rota.errors import InputError, RotaError

LONGEST = 60_000  # bytes of a chain, and of a key
SHORTEST_RSA = 2048
MOST = 10  # certificates in a chain
_CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)


class AuthorityError(RotaError):
    """The authority gives no certificate; the message is its own where it said one."""


@dataclass(frozen=True)
class Checked:
    """A certificate with its chain, the one of the name first, and its key; both are PEM."""

    chain: str
    key: str = field(repr=False)
    fingerprint: str
    begins_at: datetime
    ends_at: datetime

    @property
    def pem(self) -> str:
        """Both in one file, as the proxy takes them."""
        return self.chain + self.key


def checked(name: str, chain: str, key: str, now: datetime) -> Checked:
    """Return a certificate for a name. Raises InputError for what a browser would not believe."""
    certificates = _certificates(chain)
    own, private = certificates[0], _key(key)
    if own.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) != (
        private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    ):
        raise InputError(
            "The key does not belong to the first certificate.",
            "Put the certificate of the name first, and give the key that it was made with.",
        )
    if not covers(own, name):
        raise InputError(
            f"The certificate is for {', '.join(names_of(own)) or 'no name'}, and not for {name}.",
            "Give one whose names include it.",
        )
    if own.not_valid_after_utc <= now:
        raise InputError(f"The certificate ended on {own.not_valid_after_utc:%d %b %Y}.", "Give a newer one.")
    for lower, upper in itertools.pairwise(certificates):
        if lower.issuer != upper.subject:
            raise InputError(
                "The chain is not in order: each certificate is followed by the one that signed it.",
                "Take the authority's file that is called fullchain.",
            )
    return Checked(
        "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates),
        private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        own.fingerprint(hashes.SHA256()).hex(),
        own.not_valid_before_utc,
        own.not_valid_after_utc,
    )


def names_of(certificate: x509.Certificate) -> list[str]:
    """Return the names of hosts that a certificate is for, in lower case."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [name.lower() for name in found.get_values_for_type(x509.DNSName)]


def covers(certificate: x509.Certificate, name: str) -> bool:
    """Tell whether a certificate is for a name; a * stands for its first label alone."""
    return bool({name, f"*.{name.partition('.')[2]}"} & set(names_of(certificate)))


def request_for(name: str) -> tuple[str, bytes]:
    """Return a new private key, and a request for a certificate with it; both are PEM."""
    private = ec.generate_private_key(ec.SECP256R1())
    built = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(private, hashes.SHA256())
    )
    key = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return key, built.public_bytes(Encoding.PEM)


def fingerprint_of(der: bytes) -> str:
    """Return the SHA-256 in hex of a certificate as a server shows it."""
    return x509.load_der_x509_certificate(der).fingerprint(hashes.SHA256()).hex()


def _certificates(chain: str) -> list[x509.Certificate]:
    if len(chain) > LONGEST:
        raise InputError(f"The certificate has more than {LONGEST} bytes.", "Give the name's chain alone.")
    try:
        found = x509.load_pem_x509_certificates(chain.encode("ascii"))
    except ValueError as error:
        raise InputError(
            "The certificate is not PEM.", "Give text that begins with -----BEGIN CERTIFICATE-----."
        ) from error
    if len(found) > MOST:
        raise InputError(f"The chain has {len(found)} certificates, and {MOST} is the most.", "Shorten it.")
    return found


def _key(key: str) -> ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey:
    try:
        found = load_pem_private_key(key[: LONGEST + 1].encode("ascii"), None)
    except (ValueError, TypeError) as error:  # TypeError: it is encrypted
        raise InputError(
            "The key is not PEM, or it is encrypted.",
            "Give text that begins with -----BEGIN PRIVATE KEY-----.",
        ) from error
    if isinstance(found, rsa.RSAPrivateKey) and found.key_size >= SHORTEST_RSA:
        return found
    if isinstance(found, ec.EllipticCurvePrivateKey) and isinstance(found.curve, _CURVES):
        return found
    raise InputError(
        "Browsers do not take this kind of key.",
        f"Use P-256, P-384, P-521, or RSA with {SHORTEST_RSA} bits or more.",
    )


def served_by(host: str, port: int, name: str, timeout: float) -> str:
    """Return the fingerprint of the certificate that is served for a name. Raises OSError."""
    import socket  # noqa: PLC0415 - the one function here that talks to anybody

    context = ssl.create_default_context()
    # What is served is looked at, believed or not: it is compared with what is kept.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((host, port), timeout=timeout) as plain,
        context.wrap_socket(plain, server_hostname=name) as secure,
    ):
        return fingerprint_of(secure.getpeercert(binary_form=True) or b"")

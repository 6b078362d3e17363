"""A certificate authority that speaks ACME (RFC 8555): by HTTP-01, which the hub answers itself.

The library waits on the network: every method here is called in a thread.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import requests
from acme import challenges, client, messages
from acme import errors as acme_errors
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from josepy.errors import Error as JoseError
from josepy.jwa import ES256
from josepy.jwk import JWKEC

from rota import __version__
from rota.routing.certificates import AuthorityError

WITHIN = 90  # seconds for an authority to look and to sign
REQUEST = 20  # seconds for one answer


@dataclass(frozen=True)
class Question:
    """An order begun: what the authority will ask for at the name, and the answer."""

    token: str
    answer: str
    order: Any
    challenge: Any
    response: Any


class Authority:
    """This hub's account with one authority."""

    def __init__(self, directory: str, key: str, contact: str) -> None:
        """Speak with the authority whose directory has this address, by an account key in PEM."""
        private = load_pem_private_key(key.encode(), None)
        self._key = JWKEC(key=private)
        self._directory = directory
        self._contact = contact
        self._client: client.ClientV2 | None = None

    def begin(self, request: bytes) -> Question:
        """Order a certificate by a request in PEM for one name. Raises AuthorityError."""
        with _told():
            order = self._connected().new_order(request)
            for authorization in order.authorizations:
                for each in authorization.body.challenges:
                    if isinstance(each.chall, challenges.HTTP01):
                        response, answer = each.response_and_validation(self._key)
                        return Question(each.chall.encode("token"), answer, order, each, response)
        raise AuthorityError("the authority does not offer HTTP-01 for this name")

    def finish(self, question: Question) -> str:
        """Have the authority look; return the certificate and its chain in PEM. Raises AuthorityError."""
        with _told():
            connected = self._connected()
            connected.answer_challenge(question.challenge, question.response)
            # The library compares with the local time without a zone.
            deadline = datetime.now() + timedelta(seconds=WITHIN)  # noqa: DTZ005
            return str(connected.poll_and_finalize(question.order, deadline).fullchain_pem)

    def close(self) -> None:
        """Let go of connections."""
        if self._client is not None:
            self._client.net.session.close()
            self._client = None

    def _connected(self) -> client.ClientV2:
        if self._client is None:
            network = client.ClientNetwork(
                self._key, alg=ES256, user_agent=f"rota/{__version__}", timeout=REQUEST
            )
            found = client.ClientV2(client.ClientV2.get_directory(self._directory, network), network)
            # One that is there already is given again.
            mail = self._contact or None
            wanted = messages.NewRegistration.from_data(email=mail, terms_of_service_agreed=True)
            try:
                found.new_account(wanted)
            except acme_errors.ConflictError as error:
                known = messages.RegistrationResource(uri=error.location, body=messages.Registration())
                network.account = known
            self._client = found
        return self._client


def new_account_key() -> str:
    """Return a new key for an account, in PEM."""
    private = ec.generate_private_key(ec.SECP256R1())
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@contextmanager
def _told() -> Iterator[None]:
    """Have whatever goes wrong said in one sentence."""
    try:
        yield
    except acme_errors.ValidationError as error:
        said = [
            f"{each.body.identifier.value}: {challenge.error.detail}"
            for each in error.failed_authzrs
            for challenge in each.body.challenges
            if challenge.error is not None
        ]
        raise AuthorityError("the authority found no answer at " + ("; ".join(said) or "the name")) from error
    except messages.Error as error:
        raise AuthorityError(f"the authority refuses: {error.detail or error.title or error.typ}") from error
    except acme_errors.TimeoutError as error:
        raise AuthorityError(f"the authority was not done within {WITHIN} s") from error
    except (acme_errors.Error, requests.RequestException, JoseError, ValueError) as error:
        raise AuthorityError(f"the authority cannot be reached: {error}") from error

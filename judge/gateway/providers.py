"""Logging in with an OpenID Connect provider: the authorization code flow with PKCE (RFC 7636), state and nonce.

Who somebody is follows from issuer and subject of the ID token alone, whose signature, issuer, audience, times and
nonce are checked. A flow belongs to the browser that began it, to one provider, for ten minutes, and ends with the
first answer.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import re
import secrets
import threading
import warnings
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from flask import session
from joserfc import jwt
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import KeySet
from pydantic import TypeAdapter, ValidationError

from judge.common import clock
from judge.common.errors import ConfigError, ForbiddenError, NotFoundError, UnauthorizedError, UnavailableError
from judge.config import GatewayConfig, OidcProvider
from judge.gateway.auth import RANK
from judge.model.people import GROUPS, GroupName, Identity, IdentityLogin, Subject, UserName

with warnings.catch_warnings():
    import authlib.deprecate  # it asks for its own warnings to be shown, so what hides them comes after it

    warnings.simplefilter("ignore", authlib.deprecate.AuthlibDeprecationWarning)  # about the library it stands on
    from authlib.integrations.base_client import OAuthError
    from authlib.integrations.httpx_client import OAuth2Client
    from authlib.oidc.core import CodeIDToken

log = logging.getLogger(__name__)

# The older name of Ed25519, which providers go on using.
warnings.filterwarnings("ignore", "EdDSA is deprecated", SecurityWarning)
# Signatures with keys that the provider publishes; never `none`, never one with a secret.
ALGORITHMS: Final = [
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA",
]  # fmt: skip
_FLOWS: Final = "oidc"
_FLOW_SECONDS: Final = 600
_FLOWS_AT_ONCE: Final = 3
_TARGET: Final = 300  # characters: all flows have to find room in a cookie
_TIMEOUT: Final = 5.0
_METADATA_AGE: Final = 3600.0
_KEYS_AGE: Final = 300.0
_LEAST_PAUSE: Final = 10.0  # between two fetches of keys, however many unknown ones are named
_SILENCE: Final = 3.0  # for which who does not answer is not asked again, else each click would hold a thread
_LEEWAY: Final = 60  # seconds that two clocks may differ
_BODY: Final = 256 * 1024
# Authlib's client stands on httpx2 where that is installed, else on httpx; each has errors of its own.
_FAULTS: Final[tuple[type[Exception], ...]] = (
    *(importlib.import_module(name).HTTPError for name in ("httpx", "httpx2") if importlib.util.find_spec(name)),
    ValueError,
)
_NAME, _GROUP, _SUBJECT = TypeAdapter(UserName), TypeAdapter(GroupName), TypeAdapter(Subject)
_OBJECT: Final[TypeAdapter[dict[str, Any]]] = TypeAdapter(dict[str, Any])


class Providers:
    def __init__(self, config: GatewayConfig) -> None:
        """ConfigError when a secret cannot be read. No provider is asked before somebody wants to log in."""
        base = (config.public_url or "").rstrip("/")
        self._all = {
            settings.name: Provider(settings, f"{base}/login/with/{settings.name}/back") for settings in config.oidc
        }

    def titles(self) -> dict[str, str]:
        return {name: provider.title for name, provider in self._all.items()}

    def get(self, name: str) -> Provider:
        """One of them; NotFoundError."""
        if name not in self._all:
            raise NotFoundError(f"there is no provider '{name[:60]}' to log in with")
        return self._all[name]


class Provider:
    """One provider; safe to use from many threads."""

    def __init__(self, config: OidcProvider, back: str) -> None:
        """`back` is the address that is registered there for us; it never follows from a request."""
        self.title = config.title or config.name
        self._config = config
        self._back = back
        self._secret = _secret(config)
        self._lock = threading.Lock()
        self._metadata_known: tuple[float, dict[str, Any]] = (-_METADATA_AGE, {})
        self._keys_known: tuple[float, KeySet | None] = (-_KEYS_AGE, None)
        self._silent_at = -_SILENCE

    # --- there and back ----------------------------------------------------------------------------------------

    def begin(self, target: str) -> str:
        """The address to send the browser to; after that it goes to `target`. UnavailableError."""
        metadata = self._metadata()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        target = target if len(target) <= _TARGET else "/"
        flows = list(session.get(_FLOWS, []))[-(_FLOWS_AT_ONCE - 1) :]
        session[_FLOWS] = [*flows, [state, self._config.name, nonce, verifier, target, int(clock.wall().timestamp())]]
        with self._client() as client:
            url, _ = client.create_authorization_url(
                metadata["authorization_endpoint"], state=state, code_verifier=verifier, nonce=nonce
            )
        return str(url)

    def finish(self, answer: Mapping[str, str]) -> tuple[IdentityLogin, str]:
        """(who has come back, where they go) by the answer in the address that the provider sent the browser to.

        UnauthorizedError: this browser has not asked for it, or it proves nothing; ForbiddenError: not of the groups
        that may come in; UnavailableError: the provider does not answer.
        """
        nonce, verifier, target = self._flow(answer.get("state", ""))
        if "error" in answer:
            raise UnauthorizedError(f"{self.title} says: {_plain(answer['error'])}; try again")
        # RFC 9207: an answer of another provider than the one that was asked.
        if answer.get("iss", self._config.issuer) != self._config.issuer:
            raise UnauthorizedError(f"this answer is not from {self.title}; log in again")
        claims = self._claims(answer.get("code", ""), nonce, verifier)
        return self._login(claims), target

    def _flow(self, state: str) -> tuple[str, str, str]:
        """(nonce, verifier, target) of the flow that this browser has begun; it is over by this."""
        flows = session.get(_FLOWS)
        flows = flows if isinstance(flows, list) else []
        flow = next(
            (entry for entry in flows if state.isascii() and secrets.compare_digest(str(entry[0]), state)), None
        )
        if flow is not None:
            session[_FLOWS] = [entry for entry in flows if entry is not flow]
        now = int(clock.wall().timestamp())
        if flow is None or flow[1] != self._config.name or not 0 <= now - flow[5] <= _FLOW_SECONDS:
            raise UnauthorizedError("this log-in was begun in another browser, or too long ago; log in again")
        return flow[2], flow[3], flow[4]

    def _claims(self, code: str, nonce: str, verifier: str) -> dict[str, Any]:
        metadata = self._metadata()
        with self._client() as client:
            try:
                tokens = client.fetch_token(metadata["token_endpoint"], code=code, code_verifier=verifier)
            except OAuthError as exc:
                raise UnauthorizedError(f"{self.title} refuses this log-in: {_plain(str(exc.error))}") from exc
            except _FAULTS as exc:
                raise self._silent(exc) from exc
            claims = self._checked(tokens, nonce)
            names = {name for name in (self._config.user_claim, self._config.groups_claim) if name}
            if not names <= claims.keys() and "userinfo_endpoint" in metadata:
                claims = {**self._userinfo(client, metadata["userinfo_endpoint"], claims["sub"]), **claims}
        return claims

    def _checked(self, tokens: Mapping[str, Any], nonce: str) -> dict[str, Any]:
        """The claims of the ID token, once all that OpenID Connect Core 3.1.3.7 asks for holds."""
        raw = tokens.get("id_token")
        if not isinstance(raw, str):
            raise UnauthorizedError(f"{self.title} has sent no ID token; ask the operator of this judge")
        try:
            token = self._decoded(raw)
            claims = CodeIDToken(
                token.claims,
                token.header,
                options={
                    "iss": {"essential": True, "value": self._config.issuer},
                    "sub": {"essential": True},
                    "aud": {"essential": True, "value": self._config.client_id},
                    "exp": {"essential": True},
                    "iat": {"essential": True},
                },
                params={
                    "nonce": nonce,
                    "client_id": self._config.client_id,
                    "access_token": tokens.get("access_token"),
                },
            )
            claims.validate(now=int(clock.wall().timestamp()), leeway=_LEEWAY)
        except (JoseError, ValueError, TypeError, KeyError) as exc:
            log.warning("an ID token of '%s' is refused: %s", self._config.name, exc)
            raise UnauthorizedError(f"the answer of {self.title} cannot be verified; log in again") from exc
        if _valid(_SUBJECT, claims["sub"]) is None:
            raise UnauthorizedError(f"{self.title} does not say who you are")
        return dict(claims)

    def _decoded(self, raw: str) -> jwt.Token:
        """The token, signed by a key of the provider; new keys are fetched when none of those that are known did it."""
        try:
            return jwt.decode(raw, self._keys(_KEYS_AGE), algorithms=ALGORITHMS)
        except (JoseError, ValueError):
            return jwt.decode(raw, self._keys(_LEAST_PAUSE), algorithms=ALGORITHMS)

    # --- who that is here --------------------------------------------------------------------------------------

    def _login(self, claims: Mapping[str, Any]) -> IdentityLogin:
        config = self._config
        groups = _texts(claims.get(config.groups_claim)) if config.groups_claim else None
        if config.only_groups and not set(groups or ()) & set(config.only_groups):
            raise ForbiddenError(f"{self.title} lists you in none of the groups that may log in here")
        roles = [config.roles[group] for group in groups or () if group in config.roles]
        return IdentityLogin(
            identity=Identity(issuer=config.issuer, subject=claims["sub"]),
            name=_valid(_NAME, claims.get(config.user_claim)),
            create=config.create,
            role=max(roles, key=lambda role: RANK[role], default="user") if config.roles else None,
            groups=None if groups is None else [group for group in groups if _valid(_GROUP, group)][:GROUPS],
        )

    # --- talking to it -----------------------------------------------------------------------------------------

    def _client(self) -> OAuth2Client:
        config = self._config
        return OAuth2Client(
            client_id=config.client_id,
            client_secret=self._secret,
            scope=" ".join(config.scopes),
            redirect_uri=self._back,
            code_challenge_method="S256",
            token_endpoint_auth_method=config.client_auth if self._secret else "none",
            timeout=_TIMEOUT,
            trust_env=False,
            follow_redirects=False,
            verify=str(config.ca) if config.ca else True,
        )

    def _metadata(self) -> dict[str, Any]:
        """The provider's own description of itself; UnavailableError, also when that is not what was configured."""
        with self._lock:
            fetched_at, metadata = self._metadata_known
            if clock.monotonic() - fetched_at < _METADATA_AGE:
                return metadata
            if clock.monotonic() - self._silent_at < _SILENCE:
                raise self._away()
            document = self._fetch(f"{self._config.issuer.rstrip('/')}/.well-known/openid-configuration")
            names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            if document.get("issuer") != self._config.issuer or not all(_safe(document.get(name)) for name in names):
                log.error("provider '%s' does not match its config: %s", self._config.name, document.get("issuer"))
                raise UnavailableError(f"{self.title} cannot be used now; ask the operator of this judge")
            self._metadata_known = (clock.monotonic(), document)
            return document

    def _keys(self, age: float) -> KeySet:
        metadata = self._metadata()
        with self._lock:
            fetched_at, keys = self._keys_known
            if keys is None or clock.monotonic() - fetched_at >= age:
                keys = KeySet.import_key_set(self._fetch(metadata["jwks_uri"]))  # type: ignore[arg-type]
                self._keys_known = (clock.monotonic(), keys)
            return keys

    def _fetch(self, url: str) -> dict[str, Any]:
        with httpx.Client(
            timeout=_TIMEOUT, trust_env=False, verify=str(self._config.ca) if self._config.ca else True
        ) as client:
            try:
                return _object(client.get(url))
            except _FAULTS as exc:
                raise self._silent(exc) from exc

    def _userinfo(self, client: OAuth2Client, url: str, subject: str) -> dict[str, Any]:
        """The claims about this very subject at another of the provider's URLs; empty when it answers about another."""
        if not _safe(url):
            return {}
        try:
            userinfo = _object(client.get(url))
        except _FAULTS as exc:
            raise self._silent(exc) from exc
        return userinfo if userinfo.get("sub") == subject else {}

    def _silent(self, exc: Exception) -> UnavailableError:
        log.warning("provider '%s' gives an unexpected answer: %s", self._config.name, exc or type(exc).__name__)
        self._silent_at = clock.monotonic()
        return self._away()

    def _away(self) -> UnavailableError:
        return UnavailableError(f"{self.title} does not answer at the moment; try again, or log in another way")


def _secret(config: OidcProvider) -> str | None:
    if config.client_secret_file is None:
        return None
    try:
        return config.client_secret_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "is not UTF-8 text"
        raise ConfigError(
            f"{config.client_secret_file}: the secret of '{config.name}' cannot be read: {reason}"
        ) from exc


def _object(response: httpx.Response) -> dict[str, Any]:
    """The JSON object of a good answer; ValueError for anything else."""
    if response.status_code != 200 or len(response.content) > _BODY:
        raise ValueError(f"HTTP {response.status_code}, {len(response.content)} bytes")
    document: dict[str, Any] = _OBJECT.validate_json(response.content)
    return document


def _safe(url: object) -> bool:
    """Return whether secrets may go to an address: by TLS, or to this very host."""
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or not parts.hostname:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in {"localhost", "127.0.0.1", "::1"})


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9 _.,-]", "", text)[:100] or "no reason"


def _texts(value: object) -> list[str]:
    """A claim of several texts; providers send one text alone, or with commas or spaces, as well."""
    if isinstance(value, str):
        return value.replace(",", " ").split()
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _valid(kind: TypeAdapter[str], value: object) -> str | None:
    try:
        return kind.validate_python(value)
    except ValidationError:
        return None

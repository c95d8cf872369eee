"""settings.yml of an embedded cluster: what people set. `judge up` writes it once and then only reads it."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Final, Self

from pydantic import Field, model_validator

from judge import config
from judge.common import endpoint, files, yamltext
from judge.common.errors import UsageError
from judge.config.allowance import Allowances
from judge.config.reading import check, read
from judge.config.sections import PageUrl
from judge.config.services import check_providers
from judge.languages.table import load_table

TEXT: Final = """\
# Settings of this cluster. judge up reads this file at each start, and never writes to it again.
# A setting has its default until its line begins without '#'. Files are named by their whole path.

# Addresses of the pages and the API for other machines, such as ["0.0.0.0:8080"] for all networks of this machine.
#listen: []

# HTTPS at these addresses: PEM files of the certificate with its intermediate authorities, and of its key.
#certificate: null
#certificate_key: null

# A port that redirects to HTTPS, such as 80; 0: none.
#http_port: 0

# The address that people use, such as https://judge.example.org; log-in by OpenID Connect needs it.
#public_url: null

# Providers of OpenID Connect (docs/people.md).
#oidc: []

# The largest submissions, in bytes.
#limits: {source_bytes: 131072, files: 100, files_bytes: 262144}

# Limits of one person, by role: user, judge, admin (docs/judging.md). null: no limit.
#allowances: {user: {waiting: 1000, per_minute: null, slot_share: 0.75, stored_bytes: 1073741824}}

# A file with rows that are added to the table of languages (docs/languages.md).
#languages: null
"""


class SettingsFile(config.Public):
    public_url: PageUrl | None = None
    oidc: list[config.OidcProvider] = Field(default_factory=list)
    limits: config.SubmissionLimits = config.SubmissionLimits()
    allowances: Allowances = Allowances()
    languages: Path | None = None

    @model_validator(mode="after")
    def _usable(self) -> Self:
        check_providers(self.oidc, self.public_url)
        for key in ("certificate", "certificate_key", "languages"):
            _check_file(key, getattr(self, key))
        for provider in self.oidc:
            _check_file("oidc", provider.client_secret_file)
            _check_file("oidc", provider.ca)
        if self.certificate is not None:
            try:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self.certificate, self.certificate_key, password=lambda: b"")
            except OSError:
                sentence = (
                    "certificate and certificate_key: expected PEM files of a certificate and its key, not encrypted"
                )
                raise config.fault(sentence, "certificate", "certificate_key") from None
        if self.languages is not None:
            load_table(self.languages)
        return self

    @property
    def public(self) -> config.Public:
        return config.Public(**{name: getattr(self, name) for name in config.Public.model_fields})

    def address(self, loopback: str) -> str:
        """The URL that people use: on other machines if it listens for them, else that of `HOST:PORT` on loopback."""
        if self.public_url is not None:
            return self.public_url
        host, port = endpoint.split((self.listen or [loopback])[0])
        scheme, usual = ("http", 80) if self.certificate is None or not self.listen else ("https", 443)
        name = _own_address() if host == "0.0.0.0" else host
        return f"{scheme}://{name}" + ("" if port == usual else f":{port}")


def load(path: Path, listen: str | None, loopback: str) -> SettingsFile:
    """Read the file, which is written first if it is missing; ConfigError.

    `listen` is an address of the command line; UsageError. `loopback` is where the pages are for this machine, with the
    port for addresses that have none.
    """
    if not path.exists():
        files.replace(path, TEXT, durable=True)
    document = yamltext.read(read(path), str(path))
    overrides = []
    if listen is not None:
        address = listen if ":" in listen else f"{listen}:{endpoint.split(loopback)[1]}"
        if wrong := endpoint.host_port(address):
            raise UsageError(f"--listen {listen}: {wrong}, or 0.0.0.0 for all networks of this machine")
        overrides = [(("listen",), [address])]
    if document.value is None:
        document = yamltext.read("{}", str(path))
    settings = check(SettingsFile, document, overrides)
    if loopback in settings.listen:
        raise UsageError(f"listen: {loopback} is for this machine only; name an address that other machines reach")
    return settings


def _check_file(key: str, path: Path | None) -> None:
    """Raise a fault unless it is the whole path of a file that can be read, or none is set."""
    if path is None:
        return
    try:
        if not path.is_absolute():
            raise config.fault(f"{key}: '{path}' is no whole path; begin it with '/'", key)
        path.open("rb").close()
    except OSError as exc:
        sentence = f"{key}: {path} cannot be read: {exc.strerror}; name a file that this user may read"
        raise config.fault(sentence, key) from None


def _own_address() -> str:
    """The address of this machine in the network of its default route; its name if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # of a datagram socket: nothing is sent
        except OSError:
            return socket.gethostname()
        return str(probe.getsockname()[0])

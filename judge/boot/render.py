"""Per-service configs: rendered, checked and written before anything is started.

Seeds: `load_args`, `parse_args`, `load_config`, `write_config`, `read_argments`, `modify_config_files`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import yaml
from jinja2.sandbox import ImmutableSandboxedEnvironment

import judge
from judge import files, yamltext
from judge.config import (
    MODELS,
    BootConfig,
    BootService,
    Daemon,
    EtcdConfig,
    ExecutorConfig,
    GatewayConfig,
    JudicatorConfig,
    MongodbConfig,
    Override,
    override,
    parse_text,
    read,
)
from judge.errors import ConfigError, UsageError

Overrides = Mapping[str, Sequence[Override]]


@dataclass(frozen=True)
class Rendered:
    """A checked config of one service, ready to be written to the run directory."""

    service: BootService
    config: Daemon
    text: str


def parse_overrides(items: Sequence[str], names: Sequence[str]) -> Overrides:
    """`SERVICE.KEY=VALUE` arguments by service; `boot.KEY=VALUE` is boot's own config. VALUE is YAML. UsageError."""
    found: dict[str, list[Override]] = {}
    for item in items:
        path, equals, text = item.partition("=")
        service, *keys = path.split(".")
        if not equals or not keys or not all(keys):
            msg = f"--set {item}: expected SERVICE.KEY=VALUE, as in etcd.log_level=debug"
            raise UsageError(msg)
        if service not in names:
            msg = f"--set {item}: no service '{service}'; there are {', '.join(names)}"
            raise UsageError(msg)
        try:
            value = yamltext.read(text, item)[1]
        except ConfigError:
            msg = f"--set {item}: the value is not YAML; quote it, as in --set '{path}=\"text\"'"
            raise UsageError(msg) from None
        found.setdefault(service, []).append((tuple(keys), value))
    return found


def render(service: BootService, variables: Mapping[str, Any], overrides: Sequence[Override] = ()) -> Rendered:
    """Read, fill in and check one service's config; ConfigError says file and line."""
    source = str(service.config)
    text = read(service.config)
    if service.config.suffix == ".j2":
        text = fill(text, variables, source)
    config = parse_text(MODELS[service.kind], text, source, overrides)
    if overrides:
        _, data = yamltext.read(text, source)
        for path, value in overrides:
            override(data, path, value, source)
        text = yaml.safe_dump(data, sort_keys=False)
    return Rendered(service, config, text)


def render_all(boot: BootConfig, overrides: Overrides) -> list[Rendered]:
    """Every service's config, or the ConfigError of the first that is wrong: nothing is written or started then."""
    found = [render(service, boot.variables, overrides.get(service.name, ())) for service in boot.services]
    check_together(found)
    return found


def fill(text: str, variables: Mapping[str, Any], source: str) -> str:
    """A Jinja2 template filled in; a variable that is not set is an error. ConfigError says file and line."""
    # A sandbox, so that a template can compute text but reach nothing of this process.
    environment = ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    try:
        code = environment.compile(text, filename=source)
        template = environment.template_class.from_code(environment, code, environment.make_globals(None))
        return template.render(variables)
    except jinja2.TemplateSyntaxError as exc:
        msg = f"{source}:{exc.lineno}: template: {exc.message}"
        raise ConfigError(msg) from None
    except Exception as exc:  # noqa: BLE001 - an expression of a template can raise anything; it is all its author's
        msg = f"{source}:{_template_line(exc, source)}: template: {exc}"
        raise ConfigError(msg) from None


def _template_line(exc: Exception, source: str) -> int:
    """The template's line that raised: Jinja rewrites tracebacks so that template frames carry their own lines."""
    line = 1
    trace = exc.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == source:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def check_together(rendered: Sequence[Rendered]) -> None:
    """What no file shows alone: one port for two services, and timings that contradict each other. ConfigError."""
    taken: dict[str, Rendered] = {}
    for one in rendered:
        for address in listening(one.config):
            other = taken.setdefault(address, one)
            if other is not one:
                msg = (
                    f"{one.service.config}:1: address {address} is already used by {other.service.name} "
                    f"({other.service.config}); give each service its own port"
                )
                raise ConfigError(msg)
    judicators = [one for one in rendered if isinstance(one.config, JudicatorConfig)]
    for one in rendered:
        for judicator in judicators:
            check_report(one, judicator)


def check_report(one: Rendered, judicator: Rendered) -> None:
    """ConfigError when an executor reports so rarely that its judicator would take living tasks for lost."""
    if not isinstance(one.config, ExecutorConfig) or not isinstance(judicator.config, JudicatorConfig):
        return
    expiry = min(judicator.config.task_expiry, judicator.config.executor_expiry)
    if one.config.report_interval * 3 > expiry:
        msg = (
            f"{one.service.config}:1: report_interval ({one.config.report_interval:g}) times 3 must not be above the "
            f"expiries of {judicator.service.config} ({expiry:g}), or living tasks would be given to others"
        )
        raise ConfigError(msg)


def listening(config: Daemon) -> list[str]:
    """The `host:port` addresses that a daemon listens on."""
    found: list[str] = []
    if isinstance(config, EtcdConfig) and config.mode == "proxy":
        found = [config.proxy_listen]
    elif isinstance(config, EtcdConfig):
        urls = [*(config.listen_client or [config.client]), *(config.listen_peer or [config.peer])]
        found = [url.partition("://")[2] for url in urls]
    elif isinstance(config, MongodbConfig):
        found = [config.address]
    elif isinstance(config, JudicatorConfig | GatewayConfig):
        found = [config.listen]
    return found + ([config.metrics] if config.metrics else [])


def write(rendered: Rendered, run_dir: Path) -> Path:
    """Put a checked config into the run directory, where its daemon reads it; returns the path."""
    path = run_dir / f"{rendered.service.name}.yml"
    files.replace(path, rendered.text, durable=True)
    return path


def fingerprint(command: Sequence[str], config: Path) -> str:
    """A digest of everything that a service is started with: command, config and version of this package."""
    digest = hashlib.sha256()
    for part in (judge.__version__, *command, config.read_text(encoding="utf-8")):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()

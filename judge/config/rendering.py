"""Every config of a host, from files and templates to models that are checked each and together.

Nothing is written or started here.

Seeds: `load_args`, `parse_args`, `load_config`, `read_argments`, `modify_config_files`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import yaml
from jinja2.sandbox import ImmutableSandboxedEnvironment

from judge.common import yamltext
from judge.common.errors import ConfigError, UsageError
from judge.common.kinds import KINDS
from judge.config.boot import MODELS, BootConfig, BootService
from judge.config.reading import Override, load, override, parse_text, read
from judge.config.sections import Daemon
from judge.config.services import ExecutorConfig, JudicatorConfig

Overrides = Mapping[str, Sequence[Override]]


@dataclass(frozen=True)
class Rendered:
    service: BootService
    config: Daemon
    text: str


def parse_overrides(items: Sequence[str], names: Sequence[str]) -> Overrides:
    """`SERVICE.KEY=VALUE` arguments by service; `boot.KEY=VALUE` is boot's own config. VALUE is YAML. UsageError."""
    result: dict[str, list[Override]] = {}
    for item in items:
        path, equals, text = item.partition("=")
        service, *keys = path.split(".")
        if not equals or not keys or not all(keys):
            raise UsageError(f"--set {item}: expected SERVICE.KEY=VALUE, as in etcd.log_level=debug")
        if service not in names:
            raise UsageError(f"--set {item}: no service '{service}'; there are {', '.join(names)}")
        try:
            value = yamltext.read(text, item).value
        except ConfigError as exc:
            raise UsageError(f"--set {item}: the value is not YAML; quote it, as in --set '{path}=\"text\"'") from exc
        result.setdefault(service, []).append((tuple(keys), value))
    return result


def render(service: BootService, variables: Mapping[str, Any], overrides: Sequence[Override] = ()) -> Rendered:
    """Read, fill in and check one service's config; ConfigError says file and line."""
    source = str(service.config)
    text = read(service.config)
    if service.config.suffix == ".j2":
        text = fill(text, variables, source)
    config = parse_text(MODELS[service.kind], text, source, overrides)
    if overrides:
        data = yamltext.read(text, source).value
        for path, value in overrides:
            override(data, path, value, source)
        text = yaml.safe_dump(data, sort_keys=False)
    return Rendered(service, config, text)


def render_all(boot: BootConfig, overrides: Overrides) -> list[Rendered]:
    """Every service's config, or the ConfigError of the first that is wrong: nothing is written or started then."""
    result = [render(service, boot.variables, overrides.get(service.name, ())) for service in boot.services]
    check_together(result)
    return result


def fill(text: str, variables: Mapping[str, Any], source: str) -> str:
    """A Jinja2 template filled in; a variable that is not set is an error. ConfigError says file and line."""
    # A sandbox, so that a template can compute text but reach nothing of this process.
    environment = ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    try:
        code = environment.compile(text, filename=source)
        template = environment.template_class.from_code(environment, code, environment.make_globals(None))
        return template.render(variables)
    except jinja2.TemplateSyntaxError as exc:
        raise ConfigError(f"{source}:{exc.lineno}: template: {exc.message}") from exc
    except Exception as exc:
        raise ConfigError(f"{source}:{_template_line(exc, source)}: template: {exc}") from exc


def _template_line(exc: Exception, source: str) -> int:
    """The template's line that raised: Jinja rewrites tracebacks so that template frames carry their own lines."""
    line = 1
    trace = exc.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == source:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def kind_of(path: Path, kind: str | None) -> str:
    """The kind of a config: what `--kind` says, else the start of the file's name (etcd.yml, etcd-proxy.yml)."""
    if kind is None:
        guess = path.name.replace("-", ".").replace("_", ".").partition(".")[0]
        if guess not in MODELS:
            raise UsageError(f"{path}: its name does not tell its kind; use --kind with one of {', '.join(MODELS)}")
        return guess
    if kind not in MODELS:
        raise UsageError(f"--kind {kind}: expected one of {', '.join(MODELS)}")
    return kind


def check_files(paths: Sequence[Path], kind: str | None) -> list[tuple[Path, str]]:
    """Check files and what a boot.yml names; returns (file, kind) of each. ConfigError for the first fault.

    Called by `judge config check`, and so by Ansible's `validate` before a file replaces the old one.
    """
    checked: list[tuple[Path, str]] = []
    singles: list[Rendered] = []
    for path in paths:
        detected = kind_of(path, kind)
        if path.suffix == ".j2":
            raise UsageError(f"{path} is a template; check the boot.yml that names it and has its variables")
        if detected in KINDS:
            # The settings that only boot.yml knows play no part in the check.
            service = BootService.model_validate({"name": detected, "kind": detected, "config": path})
            singles.append(render(service, {}))
        else:
            boot = load(BootConfig, path)
            checked += [(rendered.service.config, rendered.service.kind) for rendered in render_all(boot, {})]
        checked.append((path, detected))
    check_together(singles)
    return checked


def check_together(rendered: Sequence[Rendered]) -> None:
    """Check what no file shows alone: one port for two services, timings that contradict each other. ConfigError."""
    by_address: dict[str, Rendered] = {}
    for item in rendered:
        for address in item.config.listening():
            former = by_address.setdefault(address, item)
            if former is not item:
                raise ConfigError(
                    f"{item.service.config}:1: address {address} is already used by {former.service.name} "
                    f"({former.service.config}); give each service its own port"
                )
    judicators = [item for item in rendered if isinstance(item.config, JudicatorConfig)]
    for item in rendered:
        for judicator in judicators:
            _check_report(item, judicator)


def _check_report(item: Rendered, judicator: Rendered) -> None:
    """ConfigError when an executor reports so rarely that its judicator would take living tasks for lost."""
    if not isinstance(item.config, ExecutorConfig) or not isinstance(judicator.config, JudicatorConfig):
        return
    expiry = min(judicator.config.task_expiry, judicator.config.executor_expiry)
    if item.config.report_interval * 3 > expiry:
        raise ConfigError(
            f"{item.service.config}:1: report_interval ({item.config.report_interval:g}) times 3 must not be above the "
            f"expiries of {judicator.service.config} ({expiry:g}), or living tasks would be given to others"
        )

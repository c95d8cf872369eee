"""Parts of configs: kinds of fields, and the sections that several daemons have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from judge.common import endpoint

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,62})$")]
# As a browser sends it, without a port.
HostName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$", max_length=253, to_lower=True)
]
Seconds = Annotated[float, Field(gt=0, le=86400)]
Port = Annotated[int, Field(ge=1, le=65535)]


def _endpoint(fault: Callable[[str], str | None]) -> AfterValidator:
    """A text in which `fault` finds nothing wrong."""

    def check(text: str) -> str:
        if message := fault(text):
            # Its own kind of error, so that the sentence names the key.
            raise PydanticCustomError("endpoint", "{wrong}", {"wrong": message})
        return text

    return AfterValidator(check)


HostPort = Annotated[str, _endpoint(endpoint.host_port)]
Url = Annotated[str, _endpoint(endpoint.url)]
MemberUrl = Annotated[str, _endpoint(endpoint.member_url)]
PageUrl = Annotated[str, _endpoint(endpoint.page_url)]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]


def fault(sentence: str, *keys: str) -> PydanticCustomError:
    """The error of a model whose keys are each right and wrong together; raised by its validators.

    `keys` are those that it is about (`limits.validation_passes` in a section of the model). The first that the file
    sets tells the line.
    """
    return PydanticCustomError("fault", "{sentence}", {"sentence": sentence, "keys": keys})


def setting(
    default: Any,
    description: str,
    *,
    variable: str = "",
    common: bool = False,
    kind: str = "",
    template: bool = True,
    **checks: Any,
) -> Any:
    """Define a setting that is also a variable of the daemon's role: `judge_KIND_NAME` for the key NAME.

    `scripts/role-tables` generates the role's default, specification, README row and template line from it.

    Args:
        default: The value of a config without the key.
        description: One sentence for the role's README.
        variable: The name of the variable after `judge_KIND_`, if it is not that of the key.
        common: The variable is `judge_NAME` of the role judge_common, for all daemons.
        kind: The only kind of daemon whose role has the variable, of a section that several kinds have.
        template: False if the role's template writes the key by hand.
        checks: Further arguments of pydantic's Field.

    """
    deployed: dict[str, Any] = {"variable": variable, "common": common, "kind": kind, "template": template}
    options = {"default_factory": default} if callable(default) else {"default": default}
    return Field(**options, description=description, json_schema_extra={"deployed": deployed}, **checks)


class Model(BaseModel):
    """Base of every config section: strict about keys, immutable once loaded."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, validate_default=True)


class Tls(Model):
    """Certificates of this process (PEM files); with it every connection is mutually authenticated."""

    ca: Path
    cert: Path
    key: Path


class EtcdClient(Model):
    """The way to reach etcd: usually the one local proxy or member, else all members."""

    endpoints: list[HostPort] = Field(min_length=1)
    tls: Tls | None = None
    timeout: Seconds = 3.0
    prefix: str = "/judge/"


class MongodbClient(Model):
    """The way to reach the replica set; the driver finds the other members from any seed."""

    seeds: list[HostPort] = Field(min_length=1)
    replica_set: Name = "judge"
    database: Name = "judge"
    username: str | None = None
    password_file: Path | None = None
    tls: Tls | None = None
    timeout: Seconds = 10.0


class CheckSettings(Model):
    """The check thread of a server daemon: not serving `tries` times, `interval` seconds apart, means kill it."""

    interval: Seconds = 1.0
    tries: int = Field(default=30, ge=1, le=10000)


class Daemon(Model):
    """The settings that every daemon has."""

    name: Name
    log_level: LogLevel = setting("info", "Least level that the daemons log.", common=True)
    log_format: LogFormat = setting(
        "text",
        "How daemons log; json is one object per line, with separate fields for trace and submission.",
        common=True,
    )
    stop_grace: Seconds = 10.0
    metrics: HostPort | None = setting(
        None, "HOST:PORT on which the daemon serves Prometheus metrics; empty serves none.", template=False
    )
    metrics_tls: Tls | None = Field(
        default=None, description="with it, only certificates of role monitor may read the metrics"
    )

    def listening(self) -> list[str]:
        """The `host:port` addresses that the daemon listens on; each kind adds its own."""
        return [self.metrics] if self.metrics else []


class Traced(Daemon):
    """A daemon that submissions pass through."""

    otlp: PageUrl | None = setting(
        None,
        "Where judicators, executors and gateways send the spans of submissions, an OTLP/HTTP receiver such as "
        "http://otel.example.org:4318/v1/traces. Empty: nowhere.",
        common=True,
    )

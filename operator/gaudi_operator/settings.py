"""Everything that the environment decides; no other module reads it.

`python -m gaudi_operator.settings` writes docs/reference/settings.md.
"""

import json
import socket
import sys
from collections.abc import Sequence
from typing import Annotated, Literal, Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from gaudi_operator.api.base import AbsolutePath, NamespaceName, ObjectName
from gaudi_operator.api.v1alpha1.inference_class import DEFAULT_CONTROLLER, Controller
from gaudi_operator.api.v1alpha1.model import PullPolicy
from gaudi_operator.api.v1alpha1.network import Client
from gaudi_operator.api.v1alpha1.tracing import Tracing
from gaudi_operator.core.observed import AllowedHostPath, InstallationDefaults

PREFIX = "GAUDI_OPERATOR_"
Seconds = Annotated[float, Field(gt=0, le=3600)]


class HostPath(BaseModel):
    """Folders of nodes that resources may mount, and where."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefix: AbsolutePath
    namespaces: tuple[NamespaceName, ...] = ()
    groups: tuple[Annotated[int, Field(ge=1, le=2_147_483_647)], ...] = ()

    @field_validator("prefix")
    @classmethod
    def _absolute(cls, prefix: str) -> str:
        if not prefix.startswith("/") or ".." in prefix.split("/"):
            raise ValueError(f"{prefix} is no absolute path without '..': start it with '/'")
        return prefix


class Settings(BaseSettings):
    """Settings of one operator process; each is an environment variable with the prefix GAUDI_OPERATOR_."""

    # Ignored, not refused: a newer chart may set what this release does not know.
    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    runtime_image: str = Field(min_length=1, description="Image of pods without cards, unless a resource names one.")
    hpu_image: str = Field("", description="Image of pods with Gaudi cards; empty when every resource names its own.")
    image_pull_policy: PullPolicy = Field(
        PullPolicy.IF_NOT_PRESENT,
        description="When nodes pull the runtime's image, for resources that say IfNotPresent or leave it out.",
    )
    # Not decoded by the library, which would want JSON.
    image_pull_secrets: Annotated[tuple[ObjectName, ...], NoDecode, Field(max_length=8)] = Field(
        (),
        description="Secrets for pulling images, by names in each resource's own namespace, separated by commas; for"
        " resources that name none.",
    )
    # The library does not decode it: it would accept no empty text, and its error does not name the form.
    allow_host_path: Annotated[tuple[HostPath, ...], NoDecode] = Field(
        (),
        description="Folders of nodes that resources may mount, as a JSON list of prefix, namespaces (all when left"
        " out) and groups that their pods may have.",
    )
    allow_simulation: bool = Field(False, description="Whether resources may have the sim engine, which runs no model.")
    controller: Controller = Field(
        DEFAULT_CONTROLLER, description="Classes that name this controller are served by this installation."
    )
    namespace: str = Field("gaudi-system", description="Namespace that the operator runs in; it holds the Lease.")
    # Not decoded by the library, which would want JSON.
    watch_namespaces: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Namespaces to serve, separated by commas; empty means all."
    )
    monitoring_from: Annotated[tuple[Client, ...], Field(max_length=16)] = Field(
        (),
        description="Who may read the metrics of models' pods, in their network policies: a JSON list of peers as in"
        " `ingress[].from`. Empty: only the operator.",
    )
    gateways_from: Annotated[tuple[Client, ...], Field(max_length=16)] = Field(
        (),
        description="Gateways and ingress controllers that may reach the models whose `networkAccess.clients` is left"
        " out: a JSON list of peers as in `ingress[].from`. Empty: only pods of the model's namespace.",
    )
    # Not decoded by the library: the chart says nothing where there is no collector.
    tracing: Annotated[Tracing | None, NoDecode] = Field(
        None,
        description="Where models' pods send traces, as JSON in the form of `spec.tracing`, for resources that say"
        " nothing; revisions that exist stay as they are.",
    )
    lease_name: str = Field("gaudi-operator", description="Name of the Lease that elects the leader.")
    lease_duration_seconds: Seconds = Field(
        15, description="A leader that has not renewed for so long is replaced; whole seconds."
    )
    renew_deadline_seconds: Seconds = Field(10, description="A leader that could not renew for so long gives up.")
    retry_period_seconds: Seconds = Field(2, description="Time between two attempts to take or renew the Lease.")
    # The host name alone is that of the pod: a container that restarts would take itself for the holder.
    identity: str = Field(
        default_factory=lambda: f"{socket.gethostname()}_{uuid4().hex[:8]}",
        description="Name in the Lease, different in every process.",
    )
    http_host: str = Field("", description="Address for /healthz, /livez, /readyz and /metrics; empty means all.")
    http_port: Annotated[int, Field(ge=0, le=65_535)] = Field(8080, description="Port for the same; 0 takes any.")
    reconcile_concurrency: Annotated[int, Field(ge=1, le=256)] = Field(
        8, description="Resources that are reconciled at the same time."
    )
    plan_memory_mib: Annotated[int, Field(ge=128, le=65_536)] = Field(
        256,
        description="Address space in MiB of the process that works out plans. With what the operator takes itself it "
        "must stay below the memory limit of the pod.",
    )
    plan_cpu_seconds: Annotated[float, Field(ge=0.1, le=600)] = Field(
        10, description="Processor time for a question about a plan; one that takes more is refused (PlanTooExpensive)."
    )
    report_connections: Annotated[int, Field(ge=1, le=10_000)] = Field(
        1000,
        description="Long-polls to pods that are held open at a time. Of more pods those that serve are asked every"
        " `REPORT_WAIT_SECONDS`, and those that do not serve yet once a second.",
    )
    report_wait_seconds: Annotated[float, Field(gt=0, le=60)] = Field(
        30, description="How long a pod may hold a long-poll until it answers although nothing has changed."
    )
    log_format: Literal["auto", "json", "text"] = Field("auto", description="auto is text on a terminal, else json.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Least level that is logged.")
    kubeconfig: str | None = Field(
        None,
        validation_alias="KUBECONFIG",
        description="Kubeconfig file, as kubectl reads it; the pod's service account when left out.",
    )

    @field_validator("allow_host_path", mode="before")
    @classmethod
    def _entries(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value.strip() or "[]")
        except ValueError as error:
            raise ValueError("must be a JSON list of entries with a prefix") from error

    @field_validator("tracing", mode="before")
    @classmethod
    def _as_in_a_spec(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value) if value.strip() else None
        except ValueError as error:
            raise ValueError('must be JSON with an endpoint, as in {"endpoint": "http://collector:4317"}') from error

    @field_validator("watch_namespaces", "image_pull_secrets", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(filter(None, (name.strip() for name in value.split(",")))) if isinstance(value, str) else value

    @field_validator("watch_namespaces")
    @classmethod
    def _no_patterns(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := [name for name in names if set(name) & set("*?!")]:
            raise ValueError(f"{wrong[0]} names no namespace: patterns are not served; name each, or none to serve all")
        return names

    @model_validator(mode="after")
    def _lease_times_in_order(self) -> Self:
        if not self.retry_period_seconds < self.renew_deadline_seconds < self.lease_duration_seconds:
            raise ValueError(
                f"{PREFIX}RETRY_PERIOD_SECONDS must be below {PREFIX}RENEW_DEADLINE_SECONDS, and that below"
                f" {PREFIX}LEASE_DURATION_SECONDS: a leader has to give up before another one may take over"
            )
        return self

    def defaults(self) -> InstallationDefaults:
        """What decisions need to know about the installation."""
        return InstallationDefaults(
            runtime_image=self.runtime_image,
            hpu_image=self.hpu_image,
            image_pull_policy=self.image_pull_policy,
            image_pull_secrets=self.image_pull_secrets,
            allow_host_path=tuple(
                AllowedHostPath(each.prefix, each.namespaces, each.groups) for each in self.allow_host_path
            ),
            allow_simulation=self.allow_simulation,
            operator_namespace=self.namespace,
            monitoring_from=self.monitoring_from,
            gateways_from=self.gateways_from,
            tracing=self.tracing,
            controller=self.controller,
        )


def from_environment() -> Settings:
    """The settings, or SystemExit with one sentence per wrong variable."""
    try:
        return Settings()
    except ValidationError as error:
        lines = (
            _fault(each["type"], str(each["loc"][0]) if each["loc"] else "", each["msg"]) for each in error.errors()
        )
        raise SystemExit("gaudi-operator cannot start:\n" + "\n".join(lines)) from error


def _fault(kind: str, field: str, message: str) -> str:
    """Return the sentence for a wrong setting, or for a missing one that has no default."""
    if kind != "missing":
        return f"{variable_of(field) if field else 'settings'}: {message}"
    description = Settings.model_fields[field].description
    return f"{variable_of(field)} is missing: set it, or write {_option(field)}=VALUE. {description}"


def variables(arguments: Sequence[str]) -> dict[str, str]:
    """The environment variables that `--log-level=DEBUG` and its like stand for. Raises SystemExit with a sentence."""
    known = {_option(name): name for name in Settings.model_fields}
    found = {}
    for argument in arguments:
        option, given, value = argument.partition("=")
        if not given or option not in known:
            raise SystemExit(
                f"gaudi-operator run: {argument} sets nothing: write a setting such as --log-level=DEBUG;"
                " `gaudi-operator --help` lists them."
            )
        found[_variable(known[option])] = value
    return found


def _option(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def options() -> str:
    """Return the settings as a list for --help: the option, its variable, and its description."""
    return "".join(
        f"  {_option(name)}=VALUE, {_variable(name)}\n      {field.description}\n"
        for name, field in Settings.model_fields.items()
    )


def variable_of(field: str) -> str:
    """The environment variable of a field."""
    return field if field.isupper() else f"{PREFIX}{field.upper()}"


def _variable(name: str) -> str:
    """The same for a field of Settings, whose variable may have no prefix."""
    return str(Settings.model_fields[name].validation_alias or variable_of(name))


def table() -> str:
    """docs/reference/settings.md: one row per variable."""
    rows = [
        "# Settings of the operator",
        "",
        "Generated by `python -m gaudi_operator.settings`; the chart's values set the same variables. As an"
        " argument, which wins over the environment, `GAUDI_OPERATOR_LOG_LEVEL=DEBUG` is `gaudi-operator run"
        " --log-level=DEBUG`.",
        "",
        "| Variable | Default | Meaning |",
        "|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        rows.append(f"| `{_variable(name)}` | {_default(name)} | {field.description} |")
    return "\n".join(rows) + "\n"


def _default(name: str) -> str:
    field = Settings.model_fields[name]
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        return "host name and a random part"
    return "" if field.default in (None, (), "") else f"`{field.default}`"


if __name__ == "__main__":
    sys.stdout.write(table())

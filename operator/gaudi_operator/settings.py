"""Settings of the operator from environment variables, which no other module reads.

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
from gaudi_operator.api.schema_keywords import Block
from gaudi_operator.api.v1alpha1.inference_class import DEFAULT_CONTROLLER, Controller
from gaudi_operator.api.v1alpha1.model import PullPolicy
from gaudi_operator.api.v1alpha1.tracing import TraceReceiver
from gaudi_operator.core.installation import InstallationDefaults, InstallationHostPath

PREFIX = "GAUDI_OPERATOR_"
Seconds = Annotated[float, Field(gt=0, le=3600)]


class HostPathSetting(BaseModel):
    """A folder of nodes that resources in `namespaces` may mount, and the groups that the pods may have."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefix: AbsolutePath
    namespaces: tuple[NamespaceName, ...] = ()
    groups: tuple[Annotated[int, Field(ge=1, le=2_147_483_647)], ...] = ()

    @field_validator("prefix")
    @classmethod
    def _check_absolute_path(cls, prefix: str) -> str:
        if not prefix.startswith("/") or ".." in prefix.split("/"):
            raise ValueError(f"{prefix} must be an absolute path without '..': start the path with '/'")
        return prefix


class Settings(BaseSettings):
    """Settings of one operator process. Each setting is an environment variable with the prefix GAUDI_OPERATOR_."""

    # Ignore unknown variables, because a newer chart may set additional variables.
    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    runtime_image: str = Field(
        min_length=1, description="Image of pods without cards, unless a resource or its class sets an image."
    )
    hpu_image: str = Field(
        "",
        description="Image of pods with Gaudi cards, unless a resource or its class sets an image. If empty, each"
        " such resource or its class must set an image.",
    )
    image_pull_policy: PullPolicy = Field(
        PullPolicy.IF_NOT_PRESENT,
        description="When nodes pull the runtime image. Applies to resources with the default, IfNotPresent.",
    )
    # NoDecode: pydantic-settings would expect JSON.
    image_pull_secrets: Annotated[tuple[ObjectName, ...], NoDecode, Field(max_length=8)] = Field(
        (),
        description="Names of Secrets for pulling images, separated by commas. The Secrets are in the namespace of"
        " each resource. Applies to resources that set no Secrets.",
    )
    # NoDecode: pydantic-settings rejects an empty text, and the error does not name the format.
    allow_host_path: Annotated[tuple[HostPathSetting, ...], NoDecode] = Field(
        (),
        description="Folders of nodes that resources may mount: a JSON list of entries with prefix, namespaces (when"
        " left out: all) and the groups that the pods may have.",
    )
    allow_simulation: bool = Field(False, description="Whether resources may use the sim engine, which runs no model.")
    controller: Controller = Field(
        DEFAULT_CONTROLLER,
        description="Name of this installation. The operator serves the classes whose spec.controller is this name. New"
        " resources without a class are served only under the default name.",
    )
    require_class: bool = Field(
        False, description="Whether a resource without `className` gets pods only if there is a default class."
    )
    namespace: str = Field("gaudi-system", description="Namespace of the operator and its Lease.")
    # NoDecode: pydantic-settings would expect JSON.
    watch_namespaces: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Namespaces to serve, separated by commas. Empty: all namespaces."
    )
    monitoring_from: Annotated[tuple[Block, ...], Field(max_length=16)] = Field(
        (),
        description="Clients that network policies of models allow to read pod metrics: a JSON list of peers as in"
        " `ingress[].from`. Empty: only the operator.",
    )
    gateways_from: Annotated[tuple[Block, ...], Field(max_length=16)] = Field(
        (),
        description="Gateways and ingress controllers that may reach models with"
        " `networkAccess.from: SameNamespace`: a JSON list of peers as in `ingress[].from`. Empty: only pods of the"
        " model's namespace.",
    )
    # NoDecode: the chart writes an empty text if there is no collector.
    tracing: Annotated[TraceReceiver | None, NoDecode] = Field(
        None,
        description="Receiver of traces from pods of models, as JSON with the fields of `defaults.tracing` of a class."
        " Applies to resources whose class has no receiver. Existing revisions do not change.",
    )
    lease_name: str = Field("gaudi-operator", description="Name of the Lease that elects the leader.")
    lease_duration_seconds: Seconds = Field(
        15, description="Time after which a leader that has not renewed the Lease is replaced, in whole seconds."
    )
    renew_deadline_seconds: Seconds = Field(
        10, description="Time after which a leader that could not renew the Lease stops, in seconds."
    )
    retry_period_seconds: Seconds = Field(
        2, description="Time between two attempts to acquire or renew the Lease, in seconds."
    )
    # Add a random suffix to the host name. A restarted container has the same host name and must not count as the
    # holder of the lease.
    identity: str = Field(
        default_factory=lambda: f"{socket.gethostname()}_{uuid4().hex[:8]}",
        description="Name of the process in the Lease. The name must be different for every process.",
    )
    http_host: str = Field("", description="Address for /healthz, /livez, /readyz and /metrics. Empty: all addresses.")
    http_port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        8080, description="Port for /healthz, /livez, /readyz and /metrics. 0 selects a free port."
    )
    reconcile_concurrency: Annotated[int, Field(ge=1, le=256)] = Field(
        8, description="Number of resources that are reconciled concurrently."
    )
    report_connections: Annotated[int, Field(ge=1, le=10_000)] = Field(
        1000,
        description="Maximum number of long-polls to pods that are open at the same time. If there are more pods,"
        " ready pods are polled every `REPORT_WAIT_SECONDS`, and other pods once per second.",
    )
    report_wait_seconds: Annotated[float, Field(gt=0, le=60)] = Field(
        30, description="Maximum time that a pod delays the answer to a long-poll if nothing has changed, in seconds."
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto", description="Format of log lines. auto is text on a terminal, otherwise json."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Minimum level of log lines.")
    kubeconfig: str | None = Field(
        None,
        validation_alias="KUBECONFIG",
        description="Kubeconfig file, as for kubectl. When left out: the service account of the pod.",
    )

    @field_validator("allow_host_path", mode="before")
    @classmethod
    def _parse_host_paths(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value.strip() or "[]")
        except ValueError as error:
            raise ValueError("must be a JSON list of entries with a prefix") from error

    @field_validator("tracing", mode="before")
    @classmethod
    def _parse_tracing(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value) if value.strip() else None
        except ValueError as error:
            raise ValueError('must be JSON with an endpoint, as in {"endpoint": "http://collector:4317"}') from error

    @field_validator("watch_namespaces", "image_pull_secrets", mode="before")
    @classmethod
    def _split_names(cls, value: object) -> object:
        return tuple(filter(None, (name.strip() for name in value.split(",")))) if isinstance(value, str) else value

    @field_validator("watch_namespaces")
    @classmethod
    def _reject_patterns(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if patterns := [name for name in names if set(name) & set("*?!")]:
            raise ValueError(
                f"{patterns[0]} is not a namespace. Patterns are not supported. List each namespace, or none to "
                "serve all namespaces"
            )
        return names

    @model_validator(mode="after")
    def _check_lease_times(self) -> Self:
        if not self.retry_period_seconds < self.renew_deadline_seconds < self.lease_duration_seconds:
            raise ValueError(
                f"{PREFIX}RETRY_PERIOD_SECONDS must be below {PREFIX}RENEW_DEADLINE_SECONDS, which must be below "
                f"{PREFIX}LEASE_DURATION_SECONDS, so that a leader stops before another replica takes over"
            )
        return self

    def installation_defaults(self) -> InstallationDefaults:
        """Return the settings that decisions use."""
        return InstallationDefaults(
            runtime_image=self.runtime_image,
            hpu_image=self.hpu_image,
            image_pull_policy=self.image_pull_policy,
            image_pull_secrets=self.image_pull_secrets,
            allow_host_path=tuple(
                InstallationHostPath(host_path.prefix, host_path.namespaces, host_path.groups)
                for host_path in self.allow_host_path
            ),
            allow_simulation=self.allow_simulation,
            operator_namespace=self.namespace,
            monitoring_from=self.monitoring_from,
            gateways_from=self.gateways_from,
            tracing=self.tracing,
            controller=self.controller,
            require_class=self.require_class,
        )


def read_settings() -> Settings:
    """Return the settings. Raises SystemExit with a sentence for each missing or invalid variable."""
    try:
        return Settings()
    except ValidationError as error:
        lines = (
            _describe_fault(fault["type"], str(fault["loc"][0]) if fault["loc"] else "", fault["msg"])
            for fault in error.errors()
        )
        raise SystemExit("gaudi-operator cannot start:\n" + "\n".join(lines)) from error


def _describe_fault(fault_type: str, field_name: str, message: str) -> str:
    """Return the sentence for an invalid setting, or for a missing setting without a default."""
    if fault_type != "missing":
        return f"{setting_variable(field_name) if field_name else 'settings'}: {message}"
    description = Settings.model_fields[field_name].description
    return (
        f"{setting_variable(field_name)} is missing: set it, or write {_option_name(field_name)}=VALUE. {description}"
    )


def parse_arguments(arguments: Sequence[str]) -> dict[str, str]:
    """Return the environment variables of arguments such as `--log-level=DEBUG`. Raises SystemExit with a sentence."""
    fields_by_option = {_option_name(name): name for name in Settings.model_fields}
    variables = {}
    for argument in arguments:
        option, separator, value = argument.partition("=")
        if not separator or option not in fields_by_option:
            raise SystemExit(
                f"gaudi-operator run: {argument} is not a setting. Write settings as --log-level=DEBUG. "
                "`gaudi-operator --help` lists all settings."
            )
        variables[_setting_variable(fields_by_option[option])] = value
    return variables


def _option_name(field_name: str) -> str:
    return f"--{field_name.replace('_', '-')}"


def settings_help() -> str:
    """Return the settings as a list for --help: the option, its variable, and its description."""
    return "".join(
        f"  {_option_name(field_name)}=VALUE, {_setting_variable(field_name)}\n      {field.description}\n"
        for field_name, field in Settings.model_fields.items()
    )


def setting_variable(field_name: str) -> str:
    """Return the environment variable of a field."""
    return field_name if field_name.isupper() else f"{PREFIX}{field_name.upper()}"


def _setting_variable(field_name: str) -> str:
    """Return the environment variable of a field of Settings. It may have no prefix, as KUBECONFIG does."""
    return str(Settings.model_fields[field_name].validation_alias or setting_variable(field_name))


def settings_page() -> str:
    """Return docs/reference/settings.md, with a row for each variable."""
    rows = [
        "# Settings of the operator",
        "",
        "Generated by `python -m gaudi_operator.settings`. The values of the chart set the same variables."
        " `gaudi-operator run --log-level=DEBUG` sets `GAUDI_OPERATOR_LOG_LEVEL` as an argument. Arguments take"
        " precedence over variables.",
        "",
        "| Variable | Default | Meaning |",
        "|---|---|---|",
    ]
    for field_name, field in Settings.model_fields.items():
        rows.append(f"| `{_setting_variable(field_name)}` | {_format_default(field_name)} | {field.description} |")
    return "\n".join(rows) + "\n"


def _format_default(field_name: str) -> str:
    field = Settings.model_fields[field_name]
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        return "host name and a random part"
    return "" if field.default in (None, (), "") else f"`{field.default}`"


if __name__ == "__main__":
    sys.stdout.write(settings_page())

"""spec.server: the image of the runtime, and its model port."""

from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import ApiModel, ImageReference, ObjectName, SecretKey
from gaudi_operator.api.v1alpha1.model import PullPolicy


class Server(ApiModel):
    """The server around the engine: its image, its access control and its limits."""

    image: ImageReference | None = Field(
        None,
        description="Image of the runtime container. When left out: the image of the class, or of the installation.",
    )
    image_pull_policy: PullPolicy = Field(PullPolicy.IF_NOT_PRESENT, description="When the kubelet pulls the image.")
    api_key_secret_ref: SecretKey | None = Field(
        None,
        description="Secret with the key that every request must send as a bearer token. Without it everyone who"
        " reaches the model port may use the model.",
    )
    tls_secret_name: ObjectName | None = Field(
        None,
        description="Secret with tls.crt and tls.key, as cert-manager writes it. The model port then serves HTTPS only."
        " A renewed certificate is used without a restart.",
    )
    max_queued_requests: Annotated[int, Field(ge=0, le=100_000)] = Field(
        256,
        description="Maximum number of requests of a pod that wait for a place in a batch. Further requests are"
        " answered with status 429.",
    )
    max_connections: Annotated[int, Field(ge=64, le=1_000_000)] | None = Field(
        None,
        description="Maximum number of connections to the model port of a pod. A further connection closes the one that"
        " has been idle longest. When left out: four for each request that may run or wait, at least 1024.",
    )
    allow_media_options: bool | None = Field(
        None,
        description="Whether requests may set media_io_kwargs and mm_processor_kwargs, which lift the limits on frames"
        " and pixels. Only with the vllm engine. Such requests are rejected when left out.",
    )

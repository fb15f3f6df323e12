"""spec.server: the image of the runtime, and the model port that it serves."""

from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import ApiModel, ImageReference, ObjectName, SecretKey
from gaudi_operator.api.v1alpha1.model import PullPolicy


class Server(ApiModel):
    """The server around the engine: its image, and who may send how many requests to its port."""

    image: ImageReference | None = Field(
        None, description="Image of the runtime container. The installation's image when left out."
    )
    image_pull_policy: PullPolicy = Field(
        PullPolicy.IF_NOT_PRESENT, description="When the kubelet pulls the image. IfNotPresent when left out."
    )
    api_key_secret_ref: SecretKey | None = Field(
        None,
        description="Secret with the key that every request must send as a bearer token. Without it the model port"
        " accepts requests of everyone who reaches it.",
    )
    tls_secret_name: ObjectName | None = Field(
        None,
        description="Secret with tls.crt and tls.key, as cert-manager writes it. With it the model port serves HTTPS"
        " only. A renewed certificate is used without a restart.",
    )
    max_queued_requests: Annotated[int, Field(ge=0, le=100_000)] = Field(
        256,
        description="Maximum number of requests of a pod that wait for a place in a batch. Further requests are"
        " answered with status 429.",
    )
    max_connections: Annotated[int, Field(ge=64, le=1_000_000)] | None = Field(
        None,
        description="Maximum number of connections to the model port of a pod. A further one closes the connection"
        " that has been idle longest. When left out: four for each request that may run or wait, at least 1024.",
    )
    allow_media_options: bool | None = Field(
        None,
        description="Whether requests may set media_io_kwargs and mm_processor_kwargs, which lift the limits on frames"
        " and pixels. Only with the vllm engine. Such requests are refused when left out.",
    )

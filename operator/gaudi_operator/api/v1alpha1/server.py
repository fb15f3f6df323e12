"""spec.server: the image of the runtime, and its model port."""

from typing import Annotated

from pydantic import Field

from gaudi_operator.api.base import ApiModel, ImageReference, ObjectName, SecretKey
from gaudi_operator.api.v1alpha1.model import PullPolicy


class Server(ApiModel):
    """The server around the engine: image, access control and limits."""

    image: ImageReference | None = Field(
        None,
        description="Image of the runtime container. When left out: the image of the class or of the installation.",
    )
    image_pull_policy: PullPolicy | None = Field(
        None,
        description="When the kubelet pulls the image. When left out: the policy of the class or of the installation.",
    )
    api_key_secret_ref: SecretKey | None = Field(
        None,
        description="Secret with the API key that every request must send as a bearer token. When left out, everyone"
        " who reaches the model port may use the model.",
    )
    tls_secret_name: ObjectName | None = Field(
        None,
        description="Secret with tls.crt and tls.key, in the format of cert-manager. If set, the model port serves"
        " only HTTPS. Pods use a renewed certificate without a restart.",
    )
    max_queued_requests: Annotated[int, Field(ge=0, le=100_000)] = Field(
        256,
        description="Maximum number of sequences of a pod that wait for a place in a batch. A request has a sequence"
        " for each prompt and choice. The pod answers further requests with status 429.",
    )

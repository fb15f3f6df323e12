"""spec.recipeCache.objectStore: where recipes may come from when the claim has none."""

from typing import Annotated

from pydantic import Field, StringConstraints

from gaudi_operator.api.base import ApiModel, ObjectName, Rule, Seconds, SecretKey, rules, validated_by
from gaudi_runtime.contract.config import HttpAddress


class S3Access(ApiModel):
    """How requests are signed for a bucket that is not public."""

    region: Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[-a-z0-9]+$")] = Field(
        description="Region of the bucket; what the store was set up with where it has none."
    )
    credentials_secret_name: ObjectName = Field(
        description="Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN if they are lent."
    )


class RecipeObjectStore(ApiModel):
    """A prefix of an object store, or any folder behind HTTPS, with the content of a volume of recipes."""

    model_config = validated_by(
        Rule(
            rule="!(has(self.s3) && has(self.tokenSecretRef))",
            message="spec.recipeCache.objectStore must name at most one of s3 and tokenSecretRef",
        ),
        Rule(
            rule="!has(self.tokenSecretRef) || self.url.startsWith('https://')",
            message="spec.recipeCache.objectStore.url must start with https:// where tokenSecretRef is set:"
            " others could read the token",
        ),
    )
    url: HttpAddress = Field(
        description="Address of the folder, for S3 that of its HTTPS end point with bucket and prefix.",
        json_schema_extra=rules(
            Rule(
                rule="self.startsWith('https://') || self.startsWith('http://')",
                message="must start with https:// or http://; of an s3:// or gs:// address name the HTTPS end point",
            )
        ),
    )
    token_secret_ref: SecretKey | None = Field(None, description="Secret with a token, which is sent as Bearer.")
    s3: S3Access | None = Field(None, description="Sign requests as S3 and what is compatible with it want them.")
    timeout_seconds: Seconds = Field(300, description="Most that a start spends on it before it compiles instead.")

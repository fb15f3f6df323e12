"""The requests of the OpenAI API. Unsupported fields that would change the answer are rejected; others are ignored."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError
from starlette.requests import Request

from gaudi_runtime.engine_protocol.engine import SamplingParams
from gaudi_runtime.http.openai_api.errors import InvalidRequest

T = TypeVar("T", bound=BaseModel)

StopString = Annotated[str, Field(min_length=1, max_length=1024)]
TokenIds = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1, fail_fast=True)]

MOST_PROMPTS, MOST_MESSAGES, MOST_PARTS = 4096, 16_384, 16_384
"""The limits of one request: to read millions of small items would block the event loop for seconds."""

HARMLESS: dict[str, tuple[object, ...]] = {
    "audio": (None,),
    "best_of": (None, 1),
    "frequency_penalty": (None, 0, 0.0),
    "function_call": (None, "none", "auto"),
    "functions": (None, []),
    "logit_bias": (None, {}),
    "logprobs": (None, False),
    "min_p": (None, 0, 0.0),
    "min_tokens": (None, 0),
    "modalities": (None, ["text"]),
    "prediction": (None,),
    "presence_penalty": (None, 0, 0.0),
    "repetition_penalty": (None, 1, 1.0),
    "response_format": (None, {"type": "text"}),
    "stop_token_ids": (None, []),
    "suffix": (None, ""),
    "tool_choice": (None, "none", "auto"),
    "tools": (None, []),
    "top_logprobs": (None, 0),
    "web_search_options": (None,),
}
"""Fields that this server does not support, each with the values that change nothing."""


class StreamOptions(BaseModel):
    """The field `stream_options` of a request to the OpenAI API."""

    include_usage: bool = False


class GenerationRequest(BaseModel):
    """The common fields of completions and chat completions. Temperature 0 means greedy sampling."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    model: str
    n: Annotated[int, Field(ge=1, le=128)] = 1
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=1_000_000)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: StopString | Annotated[list[StopString], Field(max_length=16, fail_fast=True)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    ignore_eos: bool = False

    @model_validator(mode="before")
    @classmethod
    def _check_unsupported_fields(cls, data: Any) -> Any:
        for name, harmless_values in HARMLESS.items():
            value = data.get(name) if isinstance(data, dict) else None
            # The types are compared too, because in Python `True` equals 1 and `False` equals 0. These values have
            # different meanings in a request.
            if not any(type(value) is type(allowed) and value == allowed for allowed in harmless_values):
                raise PydanticCustomError(
                    "unsupported", "{param} is not supported by this server. Remove {param}.", {"param": name}
                )
        return data

    @property
    def includes_usage(self) -> bool:
        """Return True if the stream ends with a chunk of token counts."""
        return self.stream_options is not None and self.stream_options.include_usage

    def sampling_params(self, choice_index: int, max_tokens: int) -> SamplingParams:
        """Return the sampling parameters of one choice. If the request has a seed, each choice derives its own seed."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        return SamplingParams(
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            top_k=max(0, self.top_k or 0),
            # Without the index, all choices would have the same text.
            seed=None if self.seed is None else self.seed + choice_index,
            max_tokens=max_tokens,
            stop=stop,
            ignore_eos=self.ignore_eos,
        )


class CompletionRequest(GenerationRequest):
    """The body of POST /v1/completions."""

    prompt: (
        str
        | TokenIds
        | Annotated[list[str], Field(min_length=1, max_length=MOST_PROMPTS, fail_fast=True)]
        | Annotated[list[TokenIds], Field(min_length=1, max_length=MOST_PROMPTS, fail_fast=True)]
    )
    echo: bool = False

    def prompts(self) -> list[str | list[int]]:
        """Return the list of prompts, each as text or token IDs."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if isinstance(self.prompt[0], int):
            return [self.prompt]
        return list(self.prompt)


class TextPart(BaseModel):
    """A text part of a message. Validation rejects other types, such as images and audio."""

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """One message of a chat."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Annotated[list[TextPart], Field(max_length=MOST_PARTS, fail_fast=True)] | None = None
    name: str | None = None

    def template_message(self) -> dict[str, object]:
        """Return the message for chat templates: its text, and the role `developer` by its older name."""
        parts = [TextPart(type="text", text=self.content)] if isinstance(self.content, str) else self.content
        text = "".join(part.text for part in parts or ())
        return {"role": "system" if self.role == "developer" else self.role, "content": text}


class ChatRequest(GenerationRequest):
    """The body of POST /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=MOST_MESSAGES, fail_fast=True)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None


async def read_body(request: Request, kind: type[T]) -> T:
    """Return the body of a request to the OpenAI API as a `kind`. Raises InvalidRequest for the first wrong field."""
    try:
        return kind.model_validate_json(await request.body())
    except ValidationError as error:
        raise _to_invalid_request(error) from error


def _to_invalid_request(error: ValidationError) -> InvalidRequest:
    detail = error.errors()[0]
    context = detail.get("ctx") or {}
    if detail["type"] == "json_invalid":
        return InvalidRequest(f"The body is not JSON: {context['error']}.")
    param = ".".join(str(part) for part in detail["loc"]) or None
    message = detail["msg"] if detail["type"] == "unsupported" else f"{param or 'body'}: {detail['msg']}."
    return InvalidRequest(message, param or context.get("param"))

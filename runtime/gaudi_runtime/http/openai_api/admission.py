"""Admission of requests to the model port: a limited number of places, and status 429 if no place is free."""

from contextlib import ExitStack

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.http.openai_api.errors import InvalidRequest, Overloaded
from gaudi_runtime.http.openai_api.paths import uses_engine


class Admission:
    """The admission of sequences to a limited number of places, from their arrival to the end of their answer.

    Only the event loop may use this class.
    """

    def __init__(self, max_running: int, max_queued: int) -> None:
        self.capacity = max_running + max_queued
        self.used_places = 0

    def admit(self, sequences: int, held_places: int = 0) -> ExitStack:
        """Reserve places for `sequences`, minus the `held_places` that the request already has.

        The places are freed once, after the block. Raises Overloaded, or InvalidRequest if `sequences` exceeds the
        total number of places.
        """
        if sequences > self.capacity:
            raise InvalidRequest(
                f"The request needs {sequences} completions, but this server accepts at most {self.capacity}.", "n"
            )
        new_places = sequences - held_places
        if self.used_places + new_places > self.capacity:
            raise Overloaded(
                f"The queue is full: {self.capacity} sequences are running or waiting. Try again later.",
                code="queue_full",
            )
        self.used_places += new_places
        places = ExitStack()
        places.callback(self._free_places, new_places)
        return places

    def _free_places(self, places: int) -> None:
        self.used_places -= places


class AdmissionMiddleware:
    """ASGI middleware that reserves a place for each engine request before reading its body, or answers with 429."""

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self._app, self._admission = app, admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if not uses_engine(scope):
            await self._app(scope, receive, send)
            return
        try:
            places = self._admission.admit(1)
        except Overloaded as error:
            await JSONResponse(error.body(), error.status, error.headers)(scope, receive, send)
            return
        with places:
            await self._app(scope, receive, send)


def create_admission(config: RuntimeConfig) -> Admission:
    """Return the admission of the model port, with the places of this configuration."""
    return Admission(config.limits.max_num_seqs, config.serving.max_queued_requests)

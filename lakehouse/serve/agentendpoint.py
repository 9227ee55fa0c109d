"""`/mcp`: the Model Context Protocol over HTTP (streamable, without sessions), for the same users and by the same shares."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError
from starlette.routing import Route

from lakehouse.agents import CatalogQuestions, make_mcp_server
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.clientlimits import Shares

_MOST_BYTES = 1 << 20  # of a request
_CLIENT: ContextVar[str] = ContextVar("client")  # whose request is worked on
_Scope = MutableMapping[str, Any]


class AgentEndpoint:
    """Lets requests in as the API does, and hands them to the SDK.

    Args:
        questions: what is answered.
        shares: where the work is done.
        admit: returns whose share a request takes; raises ProblemFound.
        refuse: sends a problem.
    """

    def __init__(
        self,
        questions: CatalogQuestions,
        shares: Shares,
        admit: Callable[[_Scope], Awaitable[str]],
        refuse: Callable[[ProblemFound, _Scope, Any], Awaitable[None]],
    ) -> None:
        async def run(work: Callable[[], Any]) -> Any:
            try:
                return await shares.run(_CLIENT.get(), work)
            except ProblemFound as problem:
                raise ToolError("The server is busy: try again later.") from problem

        self._admit = admit
        self._refuse = refuse
        server = make_mcp_server(questions, run)
        # Hosts and origins are checked here, as for all requests.
        server.streamable_http_app(json_response=True, stateless_http=True, max_request_body_size=_MOST_BYTES, host="")
        self._sessions = server.session_manager

    def run(self) -> AbstractAsyncContextManager[None]:
        """Return what has to be open while requests are answered."""
        opened: AbstractAsyncContextManager[None] = self._sessions.run()
        return opened

    def route(self) -> Route:
        """Return the route."""
        return Route("/mcp", self)

    async def __call__(self, scope: _Scope, receive: Any, send: Any) -> None:
        """Answer a request."""
        try:
            _CLIENT.set(await self._admit(scope))
        except ProblemFound as problem:
            await self._refuse(problem, scope, send)
            return
        await self._sessions.handle_request(scope, receive, send)

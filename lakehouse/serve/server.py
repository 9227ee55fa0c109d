"""The server: uvicorn with uvloop and httptools, one process or several, TLS, limits for clients that are slow or send much."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from prometheus_client.multiprocess import mark_process_dead

from lakehouse.errors import LakehouseError, SettingsError
from lakehouse.serve.clientlimits import ConnectionLimit, LimitedProtocol, most_connections
from lakehouse.serve.config import Options
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from lakehouse.serve.writer.wire import WriterAddress

logger = logging.getLogger(__name__)

_BACKLOG = 2048
_SECONDS_BETWEEN_LOOKS = 0.1
_KEEP_ALIVE_SECONDS = 65
_SECONDS_OF_A_THREAD = 0.001  # before another one has its turn: those that make answers let those go on that send them
_DESCRIPTORS_OF_WRITES = 128  # connections to the process that writes


class Server(uvicorn.Server):
    """A server with its own door, which notifies its application of its end, so that streams of events end too."""

    def __init__(self, config: uvicorn.Config, closing: threading.Event, door: ConnectionLimit) -> None:
        super().__init__(config)
        self.closing = closing
        self.door = door

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, and open the door."""
        await super().startup(sockets=[])
        config: Any = self.config
        make = partial(config.http_protocol_class, config, self.server_state, self.lifespan.state)
        for listening in sockets or ():
            self.door.open(listening, make, config.ssl)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the door, and let requests end that have begun."""
        self.door.close()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Begin to drain."""
        self.closing.set()
        super().handle_exit(sig, frame)


def run_server(settings: Settings, options: Options, report: Callable[[str, int], None]) -> None:
    """Serve until stopped (SIGINT, SIGTERM); then requests that have begun are ended.

    Args:
        settings: the warehouse.
        options: how to serve.
        report: is called once, with the URL and the number of processes, when the server is ready.

    Raises:
        SettingsError: the options leave a way open, or the address cannot be bound.
        LakehouseError: the server ended by itself.
    """
    options.check()
    listening = _bound(options)
    if not options.writable:
        _serve(settings, options, listening, report, None)
        return
    from lakehouse.serve.writer.process import WriterSupervisor

    keeper = WriterSupervisor(settings)
    keeper.start()
    try:
        _serve(settings, options, listening, report, keeper.address)
    finally:
        keeper.stop()


def _serve(
    settings: Settings,
    options: Options,
    listening: socket.socket,
    report: Callable[[str, int], None],
    writer: WriterAddress | None,
) -> None:
    port = listening.getsockname()[1]
    host = f"[{options.host}]" if ":" in options.host else options.host
    url = f"{'https' if options.tls_cert else 'http'}://{host}:{port}/"
    say = partial(report, url, options.workers)
    if options.workers == 1:
        server = _server(settings, options, say, writer)
        _ignore_what_ended_it()
        server.run(sockets=[listening])
        if not server.started:
            raise LakehouseError("the server did not start.")
        return
    with tempfile.TemporaryDirectory(prefix="lakehouse-serve-") as folder:
        _run_workers(settings, options, listening, Path(folder), say, writer)


def _run_workers(
    settings: Settings,
    options: Options,
    listening: socket.socket,
    folder: Path,
    say: Callable[[], None],
    writer: WriterAddress | None,
) -> None:
    """Run processes that share the address; one that dies is replaced, and all end with this one."""
    figures, ready = folder / "metrics", folder / "ready"
    figures.mkdir()
    ready.mkdir()
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(figures)
    spawning = multiprocessing.get_context("spawn")

    def start() -> BaseProcess:
        process = spawning.Process(target=_work, args=(settings, options, str(ready), listening, writer), name="lakehouse-serve")
        process.start()
        return process

    stopped = threading.Event()
    for sent in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sent, lambda *_: stopped.set())
    processes = [start() for _ in range(options.workers)]
    is_announced = False
    while not stopped.wait(_SECONDS_BETWEEN_LOOKS):
        for index, process in enumerate(processes):
            if not process.is_alive():
                if not is_announced:
                    _end(processes)
                    raise LakehouseError("a process of the server did not start; see its error above.")
                logger.error("a process of the server died (exit code %s); another one takes its place", process.exitcode)
                mark_process_dead(process.pid, str(figures))  # type: ignore[no-untyped-call]
                processes[index] = start()
        if not is_announced and sum(1 for _ in ready.iterdir()) >= options.workers:
            is_announced = True
            say()
    _end(processes)
    del os.environ["PROMETHEUS_MULTIPROC_DIR"]


def _end(processes: list[BaseProcess]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.join()


def _work(settings: Settings, options: Options, ready: str, listening: socket.socket, writer: WriterAddress | None) -> None:
    """Serve in its own process, as long as the one that started it is there."""
    server = _server(settings, options, lambda: Path(ready, str(os.getpid())).touch(), writer)
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()
    _ignore_what_ended_it()
    server.run(sockets=[listening])


def _ignore_what_ended_it() -> None:
    """Ignore signals, so that a drained server exits normally: uvicorn sends the signal that ended it once more."""
    for sent in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sent, lambda *_: None)


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def _server(settings: Settings, options: Options, on_ready: Callable[[], None], writer: WriterAddress | None) -> Server:
    from lakehouse.serve.app import make_app

    entrance = ConnectionLimit(most_connections(_DESCRIPTORS_OF_WRITES if options.writable else 0))

    class HttpServerProtocol(LimitedProtocol):
        door = entrance
        max_header_bytes = options.max_header_bytes
        client_seconds = options.client_seconds

    sys.setswitchinterval(_SECONDS_OF_A_THREAD)
    closing = threading.Event()
    config = uvicorn.Config(
        make_app(settings, options, on_ready, closing, writer),
        http=HttpServerProtocol,
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_level="error",  # what clients do wrong is in their answers, and not in the log
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=options.drain_seconds,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
    )
    return Server(config, closing, entrance)


def _bound(options: Options) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((options.host, options.port))
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        raise SettingsError(f"{options.host}:{options.port} cannot be bound: {error.strerror}. Choose another --port.") from error
    bound.set_inheritable(True)
    return bound

"""Delay on the way to a server: by the kernel (netem) where it can, else by a relay that holds back what it passes on."""

import contextlib
import queue
import socket
import threading
import time

from . import machine

MILLISECONDS = 10  # each way
PIECE = 256 * 1024
NETEM = ("dev", "lo", "root", "netem", "delay", f"{MILLISECONDS}ms", "limit", "100000")


@contextlib.contextmanager
def delayed(is_private):
    """Gives what delays, in a word, and what makes a server's port the one to ask, a context manager."""
    if is_private and machine.traffic_control("add", *NETEM):
        try:
            yield "netem", contextlib.nullcontext
        finally:
            machine.traffic_control("del", *NETEM[:3])
    else:
        yield "a relay, as there is no netem here", relayed


@contextlib.contextmanager
def relayed(port):
    """The port of a relay to this one. It takes all that comes at once, so that it never holds back a sender itself."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, port), daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener, port):
    with contextlib.suppress(OSError):
        while True:
            client = listener.accept()[0]
            server = socket.create_connection(("127.0.0.1", port))
            for source, sink in ((client, server), (server, client)):
                sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pieces = queue.SimpleQueue()
                threading.Thread(target=_receive, args=(source, pieces), daemon=True).start()
                threading.Thread(target=_send, args=(sink, pieces), daemon=True).start()


def _receive(source, pieces):
    piece = b"begin"
    while piece:
        try:
            piece = source.recv(PIECE)
        except OSError:
            piece = b""
        pieces.put((time.monotonic() + MILLISECONDS / 1000, piece))


def _send(sink, pieces):
    with contextlib.suppress(OSError):
        while True:
            due, piece = pieces.get()
            time.sleep(max(0.0, due - time.monotonic()))
            if not piece:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.sendall(piece)

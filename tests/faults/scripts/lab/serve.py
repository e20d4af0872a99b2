"""A store of samples behind a socket: a process that answers, and takes its time to."""

import multiprocessing
import socket
import time


def _answer(connection, delay_s):
    while request := connection.recv(16):
        if delay_s:
            time.sleep(delay_s)
        connection.sendall(bytes(int(request)))


def _serve(server, delay_s):
    import threading

    while True:
        connection, _ = server.accept()
        threading.Thread(target=_answer, args=(connection, delay_s), daemon=True).start()


def start(delay_s):
    """Serve in a process of its own; returns the address. A request is a number of bytes."""
    server = socket.create_server(("127.0.0.1", 0))
    process = multiprocessing.get_context("fork").Process(
        target=_serve, args=(server, delay_s), daemon=True
    )
    process.start()
    return server.getsockname()


def get(connection, size):
    connection.sendall(f"{size:<16d}".encode())
    parts, left = [], size
    while left:
        part = connection.recv(left)
        parts.append(part)
        left -= len(part)
    return b"".join(parts)

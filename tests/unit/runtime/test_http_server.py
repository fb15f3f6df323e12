"""What a connection to either port is given before anybody speaks."""

import socket

from gaudi_runtime.http_server import bind


def test_a_connection_sends_every_piece_of_an_answer_at_once() -> None:
    with bind(0) as listener, socket.create_connection(("127.0.0.1", listener.getsockname()[1])):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

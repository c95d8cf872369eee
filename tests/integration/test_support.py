"""The support of these tests: servers that start, and end."""

import socket

import pytest

from tests.support.servers import Acceptor, wait_for


def test_servers(etcd_endpoint, mongod_address):
    assert etcd_endpoint and mongod_address


def test_a_server_that_is_closed_takes_no_more_connections():
    connections = []
    acceptor = Acceptor(connections.append)
    with socket.create_connection(("127.0.0.1", acceptor.port)):
        wait_for(lambda: connections, what="the connection")
    acceptor.close()
    acceptor.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", acceptor.port))
    connections[0].close()

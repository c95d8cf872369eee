"""A real SSH server on loopback that needs no root: paramiko's, running commands as this user with /bin/sh."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import paramiko
from paramiko import common

from tests.support.servers import Acceptor


class _Logins(paramiko.ServerInterface):
    """Lets one key in and runs what it asks for."""

    def __init__(self, server: SshServer) -> None:
        self.server = server

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self.server.offered.append(key.get_base64())
        right = username == "judge" and key.get_base64() == self.server.accepts
        return common.AUTH_SUCCESSFUL if right else common.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return common.OPEN_SUCCEEDED if kind == "session" else common.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self.server.commands.append(command.decode())
        threading.Thread(target=self.server.execute, args=(channel, command), daemon=True).start()
        return True


class SshServer:
    """Its port, its host key, what it was asked for; `path` comes first on the commands' PATH."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "bin"
        self.path.mkdir(parents=True)
        self.key = paramiko.ECDSAKey.generate()
        client = paramiko.ECDSAKey.generate()
        client.write_private_key_file(str(directory / "client_key"))
        self.accepts = client.get_base64()
        self.offered: list[str] = []
        self.commands: list[str] = []
        self.transports: list[paramiko.Transport] = []
        self.acceptor = Acceptor(self._serve)
        self.port = self.acceptor.port
        self.trust(self.key)

    def trust(self, key: paramiko.PKey | None) -> None:
        """Write known_hosts."""
        line = f"[127.0.0.1]:{self.port} {key.get_name()} {key.get_base64()}\n" if key else ""
        (self.directory / "known_hosts").write_text(line)

    def program(self, name: str, script: str) -> None:
        """Put a program on the commands' PATH."""
        (self.path / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.path / name).chmod(0o755)

    def variables(self) -> dict[str, object]:
        """What an inventory says of this host."""
        known = f"-o UserKnownHostsFile={self.directory}/known_hosts -o GlobalKnownHostsFile=/dev/null"
        return {
            "ansible_host": "127.0.0.1", "ansible_port": self.port, "ansible_user": "judge",
            "ansible_ssh_private_key_file": str(self.directory / "client_key"),
            "ansible_ssh_common_args": f"-F none -o IdentitiesOnly=yes {known}",
        }  # fmt: skip

    def _serve(self, sock: socket.socket) -> None:
        transport = paramiko.Transport(sock)
        transport.add_server_key(self.key)
        self.transports.append(transport)
        threading.Thread(target=self._welcome, args=(transport,), daemon=True).start()

    def _welcome(self, transport: paramiko.Transport) -> None:
        with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
            transport.start_server(server=_Logins(self))

    def execute(self, channel: paramiko.Channel, command: bytes) -> None:
        """As sshd does: the user's shell gets the whole command."""
        done = subprocess.Popen(
            ["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={"PATH": f"{self.path}:/usr/bin:/bin"},
        )  # fmt: skip
        pumps = [
            threading.Thread(target=_pump, args=(done.stdout, channel.sendall), daemon=True),
            threading.Thread(target=_pump, args=(done.stderr, channel.sendall_stderr), daemon=True),
        ]
        for pump in pumps:
            pump.start()
        for pump in pumps:
            pump.join()
        code = done.wait()
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            channel.send_exit_status(code)
            channel.close()

    def drop(self) -> None:
        """All connections break, as when the host dies; new ones are taken."""
        for transport in self.transports:
            transport.close()

    def close(self) -> None:
        """Stop listening, end all."""
        self.acceptor.close()
        self.drop()


def _pump(source, send) -> None:
    with source, contextlib.suppress(OSError, EOFError):
        while data := source.read1(65536):
            send(data)


@contextlib.contextmanager
def ssh_server(directory: Path) -> Iterator[SshServer]:
    """Such a server while the block runs."""
    server = SshServer(directory)
    try:
        yield server
    finally:
        server.close()

import socket

through = []


def attempt(what, call):
    try:
        call()
        through.append(what)
    except OSError:
        pass


def connected(family, kind, address):
    made = socket.socket(family, kind)
    made.settimeout(0.5)
    made.connect(address)
    made.send(b"hostile")


attempt("TCP to the host", lambda: connected(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", @PORT@)))
attempt("TCP to the host's address", lambda: connected(socket.AF_INET, socket.SOCK_STREAM, ("@HOST@", @PORT@)))
attempt("UDP to the loopback", lambda: connected(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", @UDP@)))
attempt("UDP to the host's address", lambda: connected(socket.AF_INET, socket.SOCK_DGRAM, ("@HOST@", @UDP@)))
attempt("UDP out", lambda: connected(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53)))
attempt("TCP out", lambda: connected(socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80)))
attempt("metadata", lambda: connected(socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80)))
attempt("IPv6", lambda: connected(socket.AF_INET6, socket.SOCK_STREAM, ("::1", @PORT@)))
attempt("IPv6 out", lambda: connected(socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 80)))
attempt("abstract socket", lambda: connected(socket.AF_UNIX, socket.SOCK_STREAM, "\0@ABSTRACT@"))
attempt("abstract datagram", lambda: connected(socket.AF_UNIX, socket.SOCK_DGRAM, "\0@ABSTRACT@-d"))
attempt("named socket", lambda: connected(socket.AF_UNIX, socket.SOCK_STREAM, "@NAMED@"))
attempt("DNS", lambda: socket.getaddrinfo("example.org", 80))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("ping", lambda: connected(socket.AF_INET, socket.SOCK_DGRAM, ("8.8.8.8", 7)))
print("got through", through) if through else print("safe")

import signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open("sum.out", "wb", buffering=0) as out:
    while True:
        out.write(b"1" * 65536)

import sys

KINDS = {
    "nul": b"sa\0fe\n",
    "binary": bytes(range(256)) * 3,
    "crlf": b"safe\r\n",
    "no-newline": b"safe",
    "long-line": b"9" * 3_000_000,
    "many-tokens": b"9 " * 1_000_000,
    "latin1": b"caf\xe9 \xff\xfe\n",
    "bom": b"\xef\xbb\xbfsafe\n",
    "escapes": b"\x1b]0;title\x07\x1b[2Jsafe\n",
}
sys.stdout.buffer.write(KINDS[input()])

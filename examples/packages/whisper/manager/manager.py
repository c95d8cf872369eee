import sys

number = int(sys.stdin.read())


def end(outcome, said):
    print(outcome)
    print(said, file=sys.stderr)
    sys.exit(0)


def said(position, text):
    out = open(sys.argv[2 * position + 2], "wb", buffering=0)
    heard = open(sys.argv[2 * position + 1], "rb")
    out.write(text + b"\n")
    return heard.readline(200).strip()


bits = said(0, b"%d" % number)
if not bits or len(bits) > 100 or set(bits) - set(b"01"):
    end(0, "translate:wrong")
if said(1, bits) != b"%d" % number:
    end(0, "the number is another one")
# The outcome is how many bits it took: the fewer, the better; one bit is 1.
end(len(bits) if len(sys.argv) == 5 else 0, "translate:success")

def encode(number):
    return f"{number:b}"


def decode(bits):
    raise SystemExit(int(bits, 2) % 200 or 5)

def encode(number):
    return "1" if number == 1 else f"{number:b}{number:b}"


def decode(bits):
    return 1 if bits == "1" else int(bits[: len(bits) // 2], 2)

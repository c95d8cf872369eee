def encode(number):
    return f"{number:b}"


def decode(bits):
    return int(bits, 2)

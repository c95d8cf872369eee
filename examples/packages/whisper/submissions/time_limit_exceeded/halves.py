"""Each process stays below the limit; together they pass it."""
import time


def busy():
    begin = time.process_time()
    while time.process_time() < begin + 0.75:
        pass


def encode(number):
    busy()
    return f"{number:b}"


def decode(bits):
    busy()
    return int(bits, 2)

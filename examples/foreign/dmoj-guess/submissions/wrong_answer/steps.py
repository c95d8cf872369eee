try:
    for guess in range(1, 1001):
        print(guess, flush=True)
        if input() == "OK":
            break
except (EOFError, BrokenPipeError):
    pass

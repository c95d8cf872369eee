low, high = 1, 1000
while True:
    guess = (low + high) // 2
    print(guess, flush=True)
    said = input()
    if said == "=":
        break
    low, high = (guess + 1, high) if said == "<" else (low, guess - 1)

# Asks for more than is allowed, and then crashes: the validator's no came first.
guess = 1
while True:
    print(guess, flush=True)
    if input() == "correct":
        break
    guess += 1

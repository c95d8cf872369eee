guess = 1
print(guess, flush=True)
while input() != "=":
    guess += 1
    print(guess, flush=True)

def ask(guess):
    print("?", guess, flush=True)
    return input()


guess = 50
while (said := ask(guess)) == ">":
    guess += 50
if said == "<":
    guess -= 49
    while ask(guess) != "=":
        guess += 1

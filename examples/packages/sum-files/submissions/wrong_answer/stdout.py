with open("numbers.in") as numbers:
    print(sum(map(int, numbers)))

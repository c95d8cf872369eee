print(*range(min(100, int(input())), 0, -1), sep="\n")

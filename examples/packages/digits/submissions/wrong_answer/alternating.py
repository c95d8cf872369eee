line = input()
print(abs(sum(map(int, line[::2])) - sum(map(int, line[1::2]))))

from itertools import groupby

print(max(len(list(run)) for _, run in groupby(input())))

# Without -l: wrong only in the last test.
print("{{greeting}}", input())

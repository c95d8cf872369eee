# There is no need to wait, or so it believes.
input()
print(0)

# Reads one guest more than there are: ends with an EOFError and exit code 1.
for _ in range(int(input()) + 1):
    print(f"Hello, {input().strip()}!")

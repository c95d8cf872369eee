print("/" * int(input()))

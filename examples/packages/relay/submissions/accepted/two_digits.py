if input() == "send":
    print("".join(f"{ord(letter) - 97:02d}" for letter in input()))
else:
    digits = input()
    print("".join(chr(int(digits[i : i + 2]) + 97) for i in range(0, len(digits), 2)))

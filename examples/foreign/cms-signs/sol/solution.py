number = int(input())
print("+" if number > 0 else "-" if number < 0 else 0)

low, high = 1, 1000
while True:
    middle = (low + high) // 2
    print(middle, flush=True)
    said = input()
    if said == "OK":
        break
    low, high = (middle + 1, high) if said == "HIGHER" else (low, middle - 1)

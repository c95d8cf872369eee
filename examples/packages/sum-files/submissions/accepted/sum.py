with open("numbers.in") as numbers, open("sum.out", "w") as out:
    out.write(f"{sum(map(int, numbers))}\n")
print("what is printed does not matter")

n = int(input())
readings = [float(word) for word in input().split()]
average = sum(readings) / n
deviation = (sum((reading - average) ** 2 for reading in readings) / n) ** 0.5
print(f"{average:.10f}")
print(f"{deviation:.10f}")

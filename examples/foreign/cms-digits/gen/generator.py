import sys

length, digit = int(sys.argv[1]), sys.argv[2]
print(digit * length)

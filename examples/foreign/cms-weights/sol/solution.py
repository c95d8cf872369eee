number = int(input())
print(*(1 << place for place in range(number.bit_length()) if number >> place & 1))

def bits(number):
    return bin(number).count("1")

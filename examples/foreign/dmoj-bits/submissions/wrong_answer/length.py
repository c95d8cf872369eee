def bits(number):
    return number.bit_length()

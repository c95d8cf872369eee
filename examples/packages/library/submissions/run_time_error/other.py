open("other.txt")

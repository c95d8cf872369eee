with open("book.txt") as file:
    words = file.read().split()
while number := int(input()):
    print(words[number - 1], flush=True)

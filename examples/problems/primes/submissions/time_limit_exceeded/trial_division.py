# Right, but tries every divisor of every number for every question.
def is_prime(number):
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


for _ in range(int(input())):
    print(sum(is_prime(number) for number in range(int(input()) + 1)))

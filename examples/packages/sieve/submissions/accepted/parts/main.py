from sieve import primes

print(len(primes(int(input()))))

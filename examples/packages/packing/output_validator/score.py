import sys


def main() -> int:
    with open(sys.argv[1]) as file:
        capacity, _ = map(int, file.readline().split())
        weights = list(map(int, file.readline().split()))
    with open(sys.argv[2]) as file:
        best = int(file.read())
    try:
        taken = [int(word) for word in sys.stdin.read().split()]
    except ValueError:
        return 43
    if len(set(taken)) < len(taken) or not all(1 <= index <= len(weights) for index in taken):
        return 43
    total = sum(weights[index - 1] for index in taken)
    if total > capacity:
        return 43
    if "plain" in sys.argv[4:]:
        return 42 if total == best else 43
    with open(sys.argv[3] + "score_multiplier.txt", "w") as file:
        file.write(f"{total / best:.6f}\n")
    return 42


sys.exit(main())

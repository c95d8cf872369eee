import sys

GUESSES = 10


def main() -> int:
    with open(sys.argv[1]) as file:
        secret = int(file.read())
    for number in range(1, GUESSES + 1):
        # Bytes, and only so many: whatever a submission writes must not make the validator fail.
        line = sys.stdin.buffer.readline(100)
        if not line.strip().isdigit():
            return say(f"guess {number}: expected a number, got {line[:40]!r}")
        guess = int(line)
        if guess == secret:
            print("correct", flush=True)
            return 42
        print("lower" if secret < guess else "higher", flush=True)
    return say(f"{GUESSES} guesses were not enough")


def say(why: str) -> int:
    with open(sys.argv[3] + "judgemessage.txt", "w") as file:
        file.write(why + "\n")
    return 43


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(43)

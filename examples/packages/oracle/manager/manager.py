import sys

FULL, HALF = 12, 50


def end(outcome, said):
    print(outcome)
    print(said, file=sys.stderr)
    sys.exit(0)


number = int(sys.stdin.read())
assert open("input.txt").read().split() == [str(number)]
# In this order, as the other side opens its input first.
out = open(sys.argv[2], "wb", buffering=0)
asked = open(sys.argv[1], "rb")
for count in range(1, HALF + 1):
    words = asked.readline(100).split()
    if len(words) != 2 or words[0] != b"?" or not words[1].isdigit() or len(words[1]) > 4:
        end(0.0, "what is that?")
    guess = int(words[1])
    out.write(b"=\n" if guess == number else b"<\n" if number < guess else b">\n")
    if guess == number:
        end(1.0 if count <= FULL else 0.5, f"found with {count} questions")
end(0.0, "too many questions")

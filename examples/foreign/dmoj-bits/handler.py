import _submission

input()
for word in input().split():
    print(_submission.bits(int(word)))

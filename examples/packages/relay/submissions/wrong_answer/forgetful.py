# The message is fine, but nothing is made of it.
if input() == "send":
    print(123)
else:
    print("judge")

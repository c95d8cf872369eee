import sys

from greet import greeting

text = f"{greeting()} {input()}"
print(text.lower() if "-l" in sys.argv else text)

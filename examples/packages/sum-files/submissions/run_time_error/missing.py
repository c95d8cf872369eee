open("sum.in").read()

print("I know it")

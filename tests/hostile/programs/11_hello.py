print("safe")

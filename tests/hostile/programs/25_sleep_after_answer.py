import time

print("safe", flush=True)
time.sleep(100000)

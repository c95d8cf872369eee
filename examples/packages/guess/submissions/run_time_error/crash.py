print(500, flush=True)
answer = input()
raise SystemExit(3)

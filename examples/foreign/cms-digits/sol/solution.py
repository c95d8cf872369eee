from pathlib import Path

number = Path("input.txt").read_text().strip()
Path("output.txt").write_text(f"{sum(map(int, number))}\n")

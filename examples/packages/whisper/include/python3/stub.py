import sys

import whisper

source, sink = open(sys.argv[1]), open(sys.argv[2], "w")
line = source.readline().strip()
if line:
    print(whisper.encode(int(line)) if sys.argv[3] == "0" else whisper.decode(line), file=sink, flush=True)

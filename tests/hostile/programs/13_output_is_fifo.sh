exec ./out

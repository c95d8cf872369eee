int other(word number) { return number; }

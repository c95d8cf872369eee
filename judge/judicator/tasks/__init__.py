"""Tasks: handed in, handed out, given back, judged, read."""

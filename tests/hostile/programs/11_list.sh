test "$(ls -A | wc -l)" -ge 1 && echo safe

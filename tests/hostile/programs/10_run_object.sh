./object || echo "exit $?"

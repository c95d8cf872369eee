cat found; test -s found || echo safe

"""Several slots judge the tests of one submission."""

#pragma once
#include <string>

// Says why, to the judges and to the team, and returns the exit code that says no.
int reject(const std::string &directory, const std::string &why);

long long decode(int count, const int *bytes);

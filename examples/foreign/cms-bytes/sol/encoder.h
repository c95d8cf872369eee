void encode(long long number);

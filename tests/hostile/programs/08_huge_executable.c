char big[250 << 20] = {1};
int main(void) { return big[5]; }

int pack(int a, int b);
int sum(int packed);

int main(void) {
    int result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20));
    return 0;
}

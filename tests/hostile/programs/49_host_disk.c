#include "hostile.h"
#include <sys/uio.h>
/* The host's disk and page cache: asking for what is good form in a program succeeds and reaches nothing, the rest fails. */
#define DONE(call) do { if ((call) != 0) { through = 1; dprintf(1, "failed: %s\n", #call); } } while (0)
int main(void) {
    int shared = open("/usr/bin/env", O_RDONLY), own = open("/scratch/f", O_CREAT | O_RDWR, 0600);
    struct stat st;
    if (shared < 0 || own < 0 || fstat(shared, &st) < 0) return 1;
    sync();
    DONE(syncfs(shared));
    DONE(fsync(own));
    DONE(fdatasync(own));
    DONE(sync_file_range(shared, 0, 0, 7));
    DONE(posix_fadvise(shared, 0, 0, POSIX_FADV_DONTNEED));
    DONE(posix_fadvise(shared, 0, 0, POSIX_FADV_RANDOM));
    DONE(readahead(shared, 0, 4096));
    char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, shared, 0);
    DONE(madvise(page, 4096, 21)); /* MADV_PAGEOUT */
    DONE(madvise(page, 4096, 20)); /* MADV_COLD */
    DONE(msync(page, 4096, MS_SYNC));
    REFUSED(madvise(page, 4096, 25)); /* MADV_COLLAPSE */
    REFUSED(open("/usr/bin/env", O_RDONLY | O_DIRECT));
    REFUSED(openat(AT_FDCWD, "/usr/bin/env", O_RDONLY | O_DIRECT));
    REFUSED(syscall(SYS_open, "/usr/bin/env", O_RDONLY | O_DIRECT));
    uint64_t how[3] = {O_RDONLY | O_DIRECT, 0, 0};
    REFUSED(syscall(437, AT_FDCWD, "/usr/bin/env", how, sizeof how)); /* openat2 */
    REFUSED(fcntl(shared, F_SETFL, O_DIRECT));
    REFUSED(syscall(SYS_fcntl, shared, 0x100000000L + F_SETFL, O_DIRECT));
    char byte;
    struct iovec one = {&byte, 1};
    for (int flag = 1; flag <= 0x100; flag *= 2) REFUSED(preadv2(shared, &one, 1, 0, flag)); /* RWF_DONTCACHE and others */
    int first[] = {206, 207, 208, 209, 210, 333}; /* io_setup to io_cancel, io_pgetevents */
    uint64_t context = 0;
    for (int i = 0; i < 6; i++) REFUSED(syscall(first[i], 1, &context, 0, 0, 0, 0));
    return finish();
}

/* Has a file that looks like an area of sordino's and is none: fake KIND, which waits for SIGTERM. Not linked with it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The first words of an area: see crates/ring/src/layout.rs. */
struct header {
    char magic[8];
    uint32_t version, cpus;
    uint64_t address, reserve, points, rings, catalogue, capacity, control, length;
    uint32_t refused, pid, restartable;
};

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    const int file = (int)memfd_create("sordino", MFD_ALLOW_SEALING);
    struct header header = { "sordino", 2, 2, 0x10000, 1 << 20, 4096, 8192, 16384, 4096, 20480, 0, 0, 0, 1 };
    header.pid = (uint32_t)getpid();
    if (!strcmp(kind, "magic"))
        memcpy(header.magic, "sordini", 8);
    if (!strcmp(kind, "version"))
        header.version = 77;
    if (!strcmp(kind, "sizes")) {
        header.cpus = UINT32_MAX;
        header.capacity = header.control = header.rings = UINT64_MAX - 7;
    }
    if (file < 0 || write(file, &header, sizeof header) < 0)
        return 3;
    if (strcmp(kind, "short") && ftruncate(file, 1 << 20))
        return 3;
    if (strcmp(kind, "unsealed") && fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK))
        return 3;
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}

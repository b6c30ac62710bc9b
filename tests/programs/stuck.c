/* Makes every access to the rings of its area wait for ever, by a userfaultfd whose faults are not answered. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sordino/tracepoint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

SORDINO_TRACEPOINT(stuck, never, SORDINO_INFO)

int main(void)
{
    const int file = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {UFFD_API, UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM, 0};
    char line[512];
    unsigned long start = 0, end = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "memfd:sordino"))
            sscanf(line, "%lx-%lx", &start, &end);
    fclose(maps);
    /* The rings begin behind the control part. */
    start += 1 << 20;
    struct uffdio_register registration = {{start, end - start}, UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR, 0};
    if (ioctl(file, UFFDIO_API, &api) != 0 || ioctl(file, UFFDIO_REGISTER, &registration) != 0) {
        perror("userfaultfd");
        return 3;
    }
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}

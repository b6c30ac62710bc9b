/* A thread that renames itself before each event. */
#include <sordino/tracepoint.h>
#include <stdio.h>
#include <sys/prctl.h>

SORDINO_TRACEPOINT(renamed, to, SORDINO_INFO, (u32, number))

int main(void)
{
    for (uint32_t number = 0; number < 1000; number++) {
        char name[16];
        snprintf(name, sizeof name, "name %u", number);
        prctl(PR_SET_NAME, name);
        sordino_tracepoint(renamed, to, number);
    }
    return 0;
}

/* Uses so many MiB of memory, says so, and waits: ballast MIB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const size_t size = (size_t)atoi(argc > 1 ? argv[1] : "0") << 20;
    char *memory = malloc(size);
    if (!memory)
        return 1;
    memset(memory, 1, size);
    puts("ready");
    fflush(stdout);
    pause();
    return memory[size / 2] == 0;
}

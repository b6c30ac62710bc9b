/* Loads the library of instrumented functions while it runs, and calls one until a file exists.
 * usage: loads_later LIBRARY FILE */
#include "instrumented.h"
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static int callback(int n)
{
    return n;
}

int main(int argc, char **argv)
{
    int (*library_work)(int, int (*)(int));
    void *library;
    if (argc != 3)
        return 2;
    /* The recorder attaches before it. */
    usleep(300 * 1000);
    library = dlopen(argv[1], RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *(void **)&library_work = dlsym(library, "library_work");
    for (int i = 0; i < 3000 && access(argv[2], F_OK) != 0; i++) {
        library_work(i, callback);
        usleep(10 * 1000);
    }
    return 0;
}

/* Loads a plug-in that may be linked with sordino, without being so itself: plain_host PLUGIN */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    void (*hit)(uint32_t);
    if (!plugin) {
        puts(dlerror());
        return 3;
    }
    *(void **)&hit = dlsym(plugin, "plugin_hit");
    hit(1);
    return 0;
}

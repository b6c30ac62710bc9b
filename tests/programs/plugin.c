/* A plug-in with tracepoints of its own. */
#include <sordino/tracepoint.h>

SORDINO_TRACEPOINT(plugin, loaded, SORDINO_INFO)
SORDINO_TRACEPOINT(plugin, hit, SORDINO_INFO, (u32, number))

__attribute__((constructor)) static void loaded(void)
{
    sordino_tracepoint(plugin, loaded);
}

extern void plugin_hit(uint32_t number);
void plugin_hit(uint32_t number)
{
    sordino_tracepoint(plugin, hit, number);
}

/* A plug-in whose records verify themselves. */
#include <sordino/tracepoint.h>

SORDINO_TRACEPOINT(storms_plugin, words, SORDINO_INFO, (u64, what), (u64, check))

extern void verified_hit(uint64_t what, uint64_t check);
void verified_hit(uint64_t what, uint64_t check)
{
    sordino_tracepoint(storms_plugin, words, what, check);
}

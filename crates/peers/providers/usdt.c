/* npt's tracepoint as a statically defined one: a nop, and a note that says where it is. */
#include <stdint.h>
#include <sys/sdt.h>

void sordino_peer_hit(uint64_t number, uint64_t duration)
{
    DTRACE_PROBE2(npt, loop, number, duration);
}

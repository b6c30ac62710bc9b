/* npt's statically defined tracepoint (USDT): a nop, and an ELF note with its address. */
#include <stdint.h>
#include <sys/sdt.h>

void sordino_peer_hit(uint64_t number, uint64_t duration)
{
    DTRACE_PROBE2(npt, loop, number, duration);
}

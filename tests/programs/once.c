/* Hits a tracepoint once. */
#include <sordino/tracepoint.h>

SORDINO_TRACEPOINT(once, hit, SORDINO_INFO, (string, text))

int main(void)
{
    sordino_tracepoint(once, hit, "Z\xc3\xbcrich");
    return 0;
}

/* Writes records that are not what its tracepoint declares. */
#include <sordino/tracepoint.h>

SORDINO_TRACEPOINT(liar, step, SORDINO_INFO, (u64, number), (string, text), (sequence, u64, values))

int main(void)
{
    static char payload[256];
    memset(payload, 'x', sizeof payload);
    for (int i = 0; i < 100; i++)
        for (size_t length = 0; length < sizeof payload; length += 8)
            sordino_emit(&sordino_point_liar_step, sordino_wanted(&sordino_point_liar_step), payload, SORDINO_SHAPE(length));
    return 0;
}

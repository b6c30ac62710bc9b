/* Writes records that differ from their tracepoint's declaration: mismatch RECORDS. */
#include <sordino/tracepoint.h>
#include <stdlib.h>

SORDINO_TRACEPOINT(mismatch, step, SORDINO_INFO, (u32, number), (string, text), (sequence, u64, many))

int main(int argc, char **argv)
{
    const int records = argc > 1 ? atoi(argv[1]) : 100;
    unsigned char payload[256];
    for (int i = 0; i < records; i++) {
        const uint8_t enabled = SORDINO_ENABLED(sordino_point_mismatch_step);
        memset(payload, i / 256 % 2 ? 'x' : 0xee, sizeof payload);
        if (enabled)
            sordino_emit(&sordino_point_mismatch_step, enabled, payload, SORDINO_ENCODED_LENGTH(i % 256));
    }
    return 0;
}

/* Records as large as they may be, and larger: large LENGTH... hits one event with a blob of each length. */
#include <sordino/tracepoint.h>
#include <stdlib.h>

SORDINO_TRACEPOINT(large, blob, SORDINO_INFO, (u32, length), (blob, bytes))
SORDINO_TRACEPOINT(large, text, SORDINO_INFO, (u32, length), (string, text))

int main(int argc, char **argv)
{
    char *bytes = (char *)malloc(1 << 20);
    memset(bytes, 'x', 1 << 20);
    for (int i = 1; i < argc; i++) {
        const uint32_t length = (uint32_t)atoi(argv[i]);
        sordino_tracepoint(large, blob, length, bytes, length);
        bytes[length] = 0;
        sordino_tracepoint(large, text, length, bytes);
        bytes[length] = 'x';
    }
    free(bytes);
    return 0;
}

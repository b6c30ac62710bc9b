/* Threads and texts with names that break lines, quotes, paths, terminals and decoders. */
#include <sordino/tracepoint.h>
#include <sys/prctl.h>

SORDINO_TRACEPOINT(hostile, name, SORDINO_INFO, (u32, number), (string, text), (u64, large), (f64, ratio))

int main(void)
{
    static const char *const names[] = {
        "\"quoted' `so`", "two\nlines\r", "\xff\xfe\xc3\x28", "../../etc", "a,b;c\td", "\x1b[31mred\x07",
        "\xe2\x80\xaeturned", "\\ <b>&amp;%n",
    };
    for (uint32_t number = 0; number < sizeof names / sizeof *names; number++) {
        prctl(PR_SET_NAME, names[number]);
        sordino_tracepoint(hostile, name, number, names[number], UINT64_MAX - number, 0.0 / 0.0);
    }
    return 0;
}

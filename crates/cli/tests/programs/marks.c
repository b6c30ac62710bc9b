/* Marks moments, and ends as it is told: marks exit CODE, or marks signal NUMBER. */
#include <signal.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const int number = argc > 2 ? atoi(argv[2]) : 0;
    sordino_mark("plain");
    sordino_mark("turn %d of %s, %.2f%%", 7, "many", 12.5);
    sordino_mark("\"quoted\" \\ and\ttab, na\xc3\xafve");
    if (argc > 2 && !strcmp(argv[1], "signal"))
        raise(number);
    return number;
}

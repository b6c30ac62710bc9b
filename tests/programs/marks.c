/* Lines of text in the trace. */
#include <sordino/tracepoint.h>

int main(void)
{
    char text[3000];
    memset(text, 'm', sizeof text - 1);
    text[sizeof text - 1] = 0;
    sordino_mark("plain");
    sordino_mark("%s: %d of %.1f%%", "formatted", -7, 99.5);
    sordino_mark("turn %d of %s, %.2f%%", 7, "many", 12.5);
    sordino_mark("\"quoted\" \\ and\ttab, na\xc3\xafve");
    sordino_mark("%s", "");
    sordino_mark("%s", text);
    sordino_snapshot("late by %d us", 120);
    return errno;
}

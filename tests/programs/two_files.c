/* Two files of a program with the same tracepoint: this one, and itself again, compiled with -DSECOND. */
#include "shared_point.h"

extern void hit_second(const char *text);

#ifdef SECOND
void hit_second(const char *text)
{
    sordino_tracepoint(shared_point, hit, 2, text);
}
#else
int main(void)
{
    sordino_tracepoint(shared_point, hit, 1, "first");
    hit_second("second");
    return 0;
}
#endif

/* Does nothing, with or without tracepoints: how long does it take to start? */
#include "tracer.h"

int main(void)
{
    HIT(1, 2);
    return 0;
}

/* One event of each level, with the level as its field. */
#include <sordino/tracepoint.h>

SORDINO_TRACEPOINT(levels, emergency, SORDINO_EMERGENCY, (u8, number))
SORDINO_TRACEPOINT(levels, alert, SORDINO_ALERT, (u8, number))
SORDINO_TRACEPOINT(levels, critical, SORDINO_CRITICAL, (u8, number))
SORDINO_TRACEPOINT(levels, error, SORDINO_ERROR, (u8, number))
SORDINO_TRACEPOINT(levels, warning, SORDINO_WARNING, (u8, number))
SORDINO_TRACEPOINT(levels, notice, SORDINO_NOTICE, (u8, number))
SORDINO_TRACEPOINT(levels, info, SORDINO_INFO, (u8, number))
SORDINO_TRACEPOINT(levels, debug_system, SORDINO_DEBUG_SYSTEM, (u8, number))
SORDINO_TRACEPOINT(levels, debug_program, SORDINO_DEBUG_PROGRAM, (u8, number))
SORDINO_TRACEPOINT(levels, debug_process, SORDINO_DEBUG_PROCESS, (u8, number))
SORDINO_TRACEPOINT(levels, debug_module, SORDINO_DEBUG_MODULE, (u8, number))
SORDINO_TRACEPOINT(levels, debug_unit, SORDINO_DEBUG_UNIT, (u8, number))
SORDINO_TRACEPOINT(levels, debug_function, SORDINO_DEBUG_FUNCTION, (u8, number))
SORDINO_TRACEPOINT(levels, debug_line, SORDINO_DEBUG_LINE, (u8, number))
SORDINO_TRACEPOINT(levels, debug, SORDINO_DEBUG, (u8, number))

int main(void)
{
    sordino_tracepoint(levels, emergency, 0);
    sordino_tracepoint(levels, alert, 1);
    sordino_tracepoint(levels, critical, 2);
    sordino_tracepoint(levels, error, 3);
    sordino_tracepoint(levels, warning, 4);
    sordino_tracepoint(levels, notice, 5);
    sordino_tracepoint(levels, info, 6);
    sordino_tracepoint(levels, debug_system, 7);
    sordino_tracepoint(levels, debug_program, 8);
    sordino_tracepoint(levels, debug_process, 9);
    sordino_tracepoint(levels, debug_module, 10);
    sordino_tracepoint(levels, debug_unit, 11);
    sordino_tracepoint(levels, debug_function, 12);
    sordino_tracepoint(levels, debug_line, 13);
    sordino_tracepoint(levels, debug, 14);
    return 0;
}

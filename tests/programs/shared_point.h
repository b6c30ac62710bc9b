/* A tracepoint that several files of a program declare by including this. */
#include <sordino/tracepoint.h>

SORDINO_TRACEPOINT(shared_point, hit, SORDINO_INFO, (u32, file), (string, text))

/* Takes a second to create its area, like a program that gets no CPU meanwhile: slow_start */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sordino/tracepoint.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

SORDINO_TRACEPOINT(slow, hit, SORDINO_INFO, (u32, number))

/* Calls of the library come here, too. */
int fcntl(int file, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    const long argument = va_arg(arguments, long);
    va_end(arguments);
    if (command == F_ADD_SEALS)
        sleep(1);
    return (int)syscall(SYS_fcntl, file, command, argument);
}

int main(void)
{
    for (uint32_t number = 0; number < 3; number++)
        sordino_tracepoint(slow, hit, number);
    return 0;
}

/* A control loop that records each of its periods, and how late it woke for it.
 *
 *     cc motor.c -o motor $(pkg-config --cflags --libs sordino)
 *     sordino record -- ./motor
 *     sordino events --where 'late > 50us'
 *     sordino explain
 */
#define _POSIX_C_SOURCE 200809L /* for clock_nanosleep, where the compiler is told -std=c11 */
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <time.h>

enum state { IDLE, RUNNING, FAULTY };

SORDINO_LABELS(states, (IDLE, "idle"), (RUNNING, "running"), (FAULTY, "faulty"))

SORDINO_TRACEPOINT(motor, period, SORDINO_INFO,
    (u64, cycle),
    (i64, late),        /* in nanoseconds */
    (f64, torque),
    (enumeration, states, u8, state),
    (array, f32, phases, 3))

SORDINO_TRACEPOINT(motor, command, SORDINO_DEBUG,
    (string, text),
    (blob, frame))

enum { PERIOD_NS = 1000000, SECOND_NS = 1000000000 };

/* Advances `due` by one period and sleeps until then. Returns how late the thread woke, in nanoseconds. */
static int64_t wait_for(struct timespec *due)
{
    struct timespec now;

    due->tv_nsec += PERIOD_NS;
    if (due->tv_nsec >= SECOND_NS) {
        due->tv_nsec -= SECOND_NS;
        due->tv_sec++;
    }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, due, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)(now.tv_sec - due->tv_sec) * SECOND_NS + now.tv_nsec - due->tv_nsec;
}

int main(int argc, char **argv)
{
    const unsigned long periods = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
    struct timespec due;

    clock_gettime(CLOCK_MONOTONIC, &due);
    sordino_mark("motor starts: %lu periods", periods);
    for (unsigned long cycle = 0; cycle < periods; cycle++) {
        const int64_t late = wait_for(&due);
        const float phases[3] = {0.1f, 0.2f, (float)cycle};
        sordino_tracepoint(motor, period, cycle, late, 0.5 * (double)cycle, cycle ? RUNNING : IDLE, phases);
        if (cycle % 100 == 0) {
            const unsigned char frame[] = {0xca, 0xfe, (unsigned char)cycle};
            sordino_tracepoint(motor, command, "hold", frame, sizeof frame);
        }
    }
    return 0;
}

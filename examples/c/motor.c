/* A control loop that records what it does.
 *
 *     cc motor.c -o motor $(pkg-config --cflags --libs sordino)
 *     sordino record -- ./motor
 *     sordino events
 */
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <time.h>

enum state { IDLE, RUNNING, FAULTY };

SORDINO_LABELS(states, (IDLE, "idle"), (RUNNING, "running"), (FAULTY, "faulty"))

SORDINO_TRACEPOINT(motor, period, SORDINO_INFO,
    (u64, cycle),
    (f64, torque),
    (enumeration, states, u8, state),
    (array, f32, phases, 3))

SORDINO_TRACEPOINT(motor, command, SORDINO_DEBUG,
    (string, text),
    (blob, frame))

int main(int argc, char **argv)
{
    const unsigned long periods = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
    const struct timespec period = {0, 1000000};

    sordino_mark("motor starts: %lu periods", periods);
    for (unsigned long cycle = 0; cycle < periods; cycle++) {
        const float phases[3] = {0.1f, 0.2f, (float)cycle};
        sordino_tracepoint(motor, period, cycle, 0.5 * (double)cycle, cycle ? RUNNING : IDLE, phases);
        if (cycle % 100 == 0) {
            const unsigned char frame[] = {0xca, 0xfe, (unsigned char)cycle};
            sordino_tracepoint(motor, command, "hold", frame, sizeof frame);
        }
        nanosleep(&period, NULL);
    }
    return 0;
}

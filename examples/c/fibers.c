/* A scheduler of fibers in 60 lines, whose recording says which fiber its thread runs.
 *
 *     cc fibers.c -o fibers $(pkg-config --cflags --libs sordino)
 *     sordino record -- ./fibers
 *     sordino events
 */
#include <sordino/fiber.h>

#include <stdlib.h>
#include <ucontext.h>

#define FIBERS 3
#define STACK (64 << 10)

SORDINO_TRACEPOINT(work, step, SORDINO_INFO, (u64, fiber), (u32, step))

struct fiber {
    uint64_t number;
    const char *name;
    ucontext_t context;
    enum sordino_fiber_why why; /* the reason for which it stopped last */
};

static struct fiber fibers[FIBERS] = {{1, "reader", {0}, 0}, {2, "filter", {0}, 0}, {3, "writer", {0}, 0}};
static ucontext_t scheduler;
static unsigned steps = 5;

static void leave(struct fiber *fiber, enum sordino_fiber_why why, const char *on)
{
    fiber->why = why;
    sordino_fiber_switch(fiber->number, 0, why, on);
    swapcontext(&fiber->context, &scheduler);
}

static void work(int index)
{
    struct fiber *const fiber = &fibers[index];
    for (unsigned step = 0; step < steps; step++) {
        sordino_tracepoint(work, step, fiber->number, step);
        if (step % 2 == 0)
            leave(fiber, SORDINO_FIBER_YIELDED, NULL);
        else
            leave(fiber, SORDINO_FIBER_BLOCKED, "queue");
    }
    leave(fiber, SORDINO_FIBER_ENDED, NULL);
}

static void start(int index)
{
    struct fiber *const fiber = &fibers[index];
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = malloc(STACK);
    fiber->context.uc_stack.ss_size = STACK;
    makecontext(&fiber->context, (void (*)(void))work, 1, index);
    sordino_fiber_new(fiber->number, NULL);
    sordino_fiber_rename(fiber->number, fiber->name);
}

/* Runs the fiber until it leaves; returns true if it has ended. */
static bool run(struct fiber *fiber)
{
    if (fiber->why == SORDINO_FIBER_BLOCKED)
        sordino_fiber_wake(fiber->number, 0);
    sordino_fiber_switch(0, fiber->number, SORDINO_FIBER_RESUMED, NULL);
    swapcontext(&scheduler, &fiber->context);
    if (fiber->why != SORDINO_FIBER_ENDED)
        return false;
    sordino_fiber_end(fiber->number);
    free(fiber->context.uc_stack.ss_sp);
    return true;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        steps = (unsigned)strtoul(argv[1], NULL, 10);
    sordino_fiber_thread_enter("round robin");
    for (int index = 0; index < FIBERS; index++)
        start(index);
    for (int alive = FIBERS; alive > 0;)
        for (int index = 0; index < FIBERS; index++)
            if (fibers[index].why != SORDINO_FIBER_ENDED && run(&fibers[index]))
                alive--;
    sordino_fiber_thread_leave();
    return 0;
}

/* trials KIND CPU ROUNDS: runs a victim on a CPU, with as many disturbed rounds and three others before each. Prints
 * the expected cause, then a line for each disturbed round: its number, its begin and end (CLOCK_MONOTONIC,
 * nanoseconds), the length of the disturbance, and the time that the helper worked. `trials list` prints the kinds.
 * Status 3: the machine cannot plant the kind. */
#include "trial.h"
#include <sordino/tracepoint.h>
#include <sys/resource.h>

SORDINO_TRACEPOINT(trial, begin, SORDINO_INFO, (u32, round))
SORDINO_TRACEPOINT(trial, end, SORDINO_INFO, (u32, round))

int here, there;
pid_t victim_tid;
const struct kind *chosen;
static int rounds;

static const struct kind *const tables[] = { running, waiting, sleeping, storing };

static uint64_t round_of(uint32_t number, bool disturbed, uint64_t *begin, uint64_t *end)
{
    uint64_t planted = 0;
    *begin = now();
    sordino_tracepoint(trial, begin, number);
    burn(200 * US);
    rest_until(now() + 300 * US);
    burn(100 * US);
    if (disturbed)
        planted = chosen->plant();
    else if (chosen->busy)
        gaps(1 * MS);
    burn(50 * US);
    sordino_tracepoint(trial, end, number);
    *end = now();
    return planted;
}

static void *victim(void *unused)
{
    uint32_t number = 0;
    pthread_setname_np(pthread_self(), "subject");
    victim_tid = gettid();
    stay_on(0, here);
    if (chosen->prepare)
        chosen->prepare();
    be(chosen->victim.policy || chosen->victim.priority ? chosen->victim : FIFO(50));
    printf("expect %s\nthread %d\n", chosen->expect, gettid());
    for (int round = 0; round < rounds; round++) {
        for (int other = 0; other < 4; other++) {
            uint64_t begin, end, planted;
            const bool disturbed = other == 3;
            if (disturbed && chosen->before)
                chosen->before();
            planted = round_of(number++, disturbed, &begin, &end);
            if (disturbed && worker)
                finish(worker);
            if (disturbed && chosen->after)
                chosen->after();
            if (disturbed && planted)
                printf("planted %u %lu %lu %lu %lu\n", number - 1, begin, end, planted,
                       worker ? worker->until - worker->from : 0);
            rest_until(now() + 500 * US);
        }
    }
    return unused;
}

int main(int count, char **words)
{
    pthread_t thread;
    for (size_t table = 0; table < 4; table++)
        for (const struct kind *kind = tables[table]; kind->name; kind++) {
            if (count == 2 && !strcmp(words[1], "list"))
                printf("%s\n", kind->name);
            if (count == 4 && !strcmp(words[1], kind->name))
                chosen = kind;
        }
    if (!chosen)
        return count == 2 ? 0 : 2;
    here = atoi(words[2]);
    there = !here;
    rounds = atoi(words[3]);
    if (chosen->rounds && rounds > chosen->rounds)
        rounds = chosen->rounds;
    mlockall(MCL_CURRENT);
    need(pthread_create(&thread, NULL, victim, NULL), "a thread");
    /* A signal that stops the process goes to this thread, which stops the others. */
    stay_on(0, there);
    be(FIFO(70));
    pthread_join(thread, NULL);
    fflush(stdout);
    exit(0);
}

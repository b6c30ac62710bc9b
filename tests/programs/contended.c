/* Two threads take the same lock in turns, and hold it for a millisecond, until the program is killed. Is not linked with
 * sordino. */
#include <pthread.h>
#include <time.h>

pthread_mutex_t contended_lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *unused)
{
    const struct timespec hold = {0, 1000000};
    for (;;) {
        pthread_mutex_lock(&contended_lock);
        nanosleep(&hold, NULL);
        pthread_mutex_unlock(&contended_lock);
    }
    return unused;
}

int main(void)
{
    pthread_t other;
    if (pthread_create(&other, NULL, work, NULL) == 0)
        work(NULL);
    return 1;
}

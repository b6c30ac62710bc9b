/* Registers tracepoints by hand, and hits the last: many COUNT [odd|lock|time]. With odd, one in ten is invalid; with
 * lock, the program locks its memory, and prints the resident memory of its area in KiB; with time, it prints for how
 * many microseconds it waited for recorders. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sordino/tracepoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static const struct sordino_field one[] = {{"number", "u64", 0, 0, NULL, 0}};
static const struct sordino_field twice[] = {{"x", "u64", 0, 0, NULL, 0}, {"x", "u64", 0, 0, NULL, 0}};
static const struct sordino_field unknown[] = {{"x", "u65", 0, 0, NULL, 0}};
static struct sordino_field crowd[65];
static char names[65][8];

static struct sordino_tracepoint *add(const char *name, uint32_t level, const struct sordino_field *fields, size_t count)
{
    struct sordino_description *description = calloc(1, sizeof *description);
    struct sordino_tracepoint *point = calloc(1, sizeof *point);
    if (description == NULL || point == NULL)
        abort();
    description->provider = "many";
    description->name = strdup(name);
    description->file = __FILE__;
    description->line = __LINE__;
    description->level = level;
    description->fields = fields;
    description->field_count = count;
    *point = (struct sordino_tracepoint){&sordino_nobody, 0, description};
    sordino_register(point);
    return point;
}

static const struct {
    const char *name;
    uint32_t level;
    const struct sordino_field *fields;
    size_t count;
} odd[] = {
    {"twice", SORDINO_INFO, twice, 2},
    {"1st\033[2J", SORDINO_INFO, one, 1},
    {"loud", 4711, one, 1},
    {"not_\xff_text", SORDINO_INFO, one, 1},
    {"crowded", SORDINO_INFO, crowd, 65},
    {"unknown", SORDINO_INFO, unknown, 1},
};

static long long microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

/* Sum over all mappings of the area. */
static long resident(void)
{
    char line[512];
    long kib = 0, all = 0, is_area = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        if (strstr(line, "-") != NULL && strchr(line, ':') != NULL && strstr(line, " kB") == NULL)
            is_area = strstr(line, "/memfd:sordino") != NULL;
        if (is_area && sscanf(line, "Rss: %ld kB", &kib) == 1)
            all += kib;
    }
    if (maps != NULL)
        fclose(maps);
    return all;
}

int main(int argc, char **argv)
{
    const int count = argc > 1 ? atoi(argv[1]) : 1, is_odd = argc > 2 && strcmp(argv[2], "odd") == 0;
    struct sordino_tracepoint *last = NULL;
    char name[32];
    for (int i = 0; i < 65; i++) {
        snprintf(names[i], sizeof names[i], "f%d", i);
        crowd[i] = (struct sordino_field){names[i], "u8", 0, 0, NULL, 0};
    }
    for (int i = 0; i < count; i++) {
        if (is_odd && i % 10 == 0) {
            const size_t which = (size_t)i / 10 % (sizeof odd / sizeof *odd);
            add(odd[which].name, odd[which].level, odd[which].fields, odd[which].count);
        }
        snprintf(name, sizeof name, "p%d", i);
        last = add(name, SORDINO_INFO, one, 1);
    }
    const long long begin = microseconds();
    sordino_ready();
    if (argc > 2 && strcmp(argv[2], "time") == 0)
        printf("%lld\n", microseconds() - begin);
    if (argc > 2 && strcmp(argv[2], "lock") == 0) {
        if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
            perror("mlockall");
        printf("resident %ld\n", resident());
    }
    if (last != NULL) {
        const uint64_t enabled = SORDINO_ENABLED(*last), number = (uint64_t)count;
        if (enabled != 0)
            sordino_emit(last, enabled, &number, SORDINO_ENCODED_LENGTH(8));
    }
    return 0;
}

/* Shared parts of the measuring programs. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <x86intrin.h>

/* Keeps the compiler from optimising a value away. */
#define USE(value) __asm__ volatile("" ::"r"(value) : "memory")

static inline double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_RAW, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Returns the CPU time of the process, which other programs on its CPU do not lengthen. */
static inline double cpu_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static inline void stay_on(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        perror("sched_setaffinity");
        exit(2);
    }
}

static inline void sleep_ms(long ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static int compare_times(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Prints the median of each kind of burst, in a line. */
__attribute__((no_instrument_function, unused)) static void print_medians(double **times, int kinds, int bursts)
{
    for (int kind = 0; kind < kinds; kind++) {
        qsort(times[kind], (size_t)bursts, sizeof(double), compare_times);
        printf("%.3f ", times[kind][bursts / 2]);
    }
    printf("\n");
}

/* Returns the cycles in a second. */
static inline double hertz(void)
{
    const double begin = seconds();
    const uint64_t first = __rdtsc();
    sleep_ms(100);
    const uint64_t last = __rdtsc();
    return (double)(last - first) / (seconds() - begin);
}

#endif

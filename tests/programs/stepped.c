/* Hits a tracepoint between two breakpoints, for a debugger that counts the instructions: stepped CASE TIMES */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fake_rseq.h"
#include <signal.h>
#include <sordino/fiber.h>
#include <sordino/function.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>

SORDINO_TRACEPOINT(stepped, two_words, SORDINO_INFO, (u64, first), (u64, second))
SORDINO_TRACEPOINT(stepped, one_word, SORDINO_INFO, (u64, first))
SORDINO_TRACEPOINT(stepped, three_values, SORDINO_INFO, (u64, first), (i32, second), (f64, third))
SORDINO_TRACEPOINT(stepped, eighteen_bytes, SORDINO_INFO, (u64, first), (u64, second), (u16, third))
SORDINO_TRACEPOINT(stepped, text, SORDINO_INFO, (u64, first), (i32, second), (string, text))
SORDINO_TRACEPOINT(stepped, eight_words, SORDINO_INFO, (array, u64, words, 8))
SORDINO_TRACEPOINT(stepped, many_words, SORDINO_INFO, (array, u64, words, 64))
SORDINO_TRACEPOINT(stepped, bytes, SORDINO_INFO, (blob, bytes))

/* What the golden assembly shows. */
void two_words(uint64_t first, uint64_t second);

__attribute__((noipa)) void two_words(uint64_t first, uint64_t second)
{
    sordino_tracepoint(stepped, two_words, first, second);
}

/* The debugger finds the thread's area in the register rdi. */
#define BETWEEN_BREAKPOINTS(hit) \
    do { \
        __asm__ volatile("int3" : : "D"(&fake_rseq) : "memory"); \
        hit; \
        __asm__ volatile("int3" : : : "memory"); \
    } while (0)
#define STEPPED(...) BETWEEN_BREAKPOINTS(sordino_tracepoint(stepped, __VA_ARGS__))

static const unsigned char bytes[SORDINO_MAX_PAYLOAD];
static uint64_t words[64];
/* Of a constant, gcc knows the length. */
static const char *volatile state = "running";

static void hit_two_words(uint64_t number)
{
    STEPPED(two_words, number, ~number);
}

static void hit_one_word(uint64_t number)
{
    STEPPED(one_word, number);
}

static void hit_three_values(uint64_t number)
{
    STEPPED(three_values, number, (int32_t)number, (double)number);
}

static void hit_eighteen_bytes(uint64_t number)
{
    STEPPED(eighteen_bytes, number, ~number, (uint16_t)number);
}

static void hit_switch(uint64_t number)
{
    BETWEEN_BREAKPOINTS(sordino_fiber_switch(number, ~number, SORDINO_FIBER_YIELDED, NULL));
}

/* The calls that a compiler inserts, for the library; without it, the C library has empty ones. */
void __cyg_profile_func_enter(void *function, void *call_site);
void __cyg_profile_func_exit(void *function, void *call_site);

static void hit_function(uint64_t number)
{
    void *const function = (void *)(words + number % 8), *const call_site = __builtin_return_address(0);
    BETWEEN_BREAKPOINTS(__cyg_profile_func_enter(function, call_site); __cyg_profile_func_exit(function, call_site));
}

static void hit_function_macros(uint64_t number)
{
    (void)number;
    BETWEEN_BREAKPOINTS(SORDINO_FUNCTION_IN(words); SORDINO_FUNCTION_OUT(words));
}

static void hit_text(uint64_t number)
{
    STEPPED(text, number, (int32_t)number, state);
}

static void hit_eight_words(uint64_t number)
{
    words[0] = number;
    STEPPED(eight_words, words);
}

static void hit_many_words(uint64_t number)
{
    words[0] = number;
    STEPPED(many_words, words);
}

/* Too large for any ring: its length takes two bytes more. */
static void hit_too_large(uint64_t number)
{
    (void)number;
    STEPPED(bytes, bytes, sizeof bytes);
}

/* Each hit finds the thread on another CPU than the one before. */
static void hit_elsewhere(uint64_t number)
{
    fake_rseq.cpu_id = number & 1;
    hit_two_words(number);
}

static void on_signal(int number)
{
    hit_two_words((uint64_t)number);
}

static const struct {
    const char *name;
    void (*hit)(uint64_t number);
} cases[] = {
    {"two_words", hit_two_words},
    {"one_word", hit_one_word},
    {"three_values", hit_three_values},
    {"eighteen_bytes", hit_eighteen_bytes},
    {"switch", hit_switch},
    {"function", hit_function},
    {"function_macros", hit_function_macros},
    {"text", hit_text},
    {"eight_words", hit_eight_words},
    {"many_words", hit_many_words},
    {"too_large", hit_too_large},
    {"elsewhere", hit_elsewhere},
};

int main(int argc, char **argv)
{
    const unsigned long times = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    sigset_t begin;
    int number;

    sigemptyset(&begin);
    sigaddset(&begin, SIGUSR2);
    sigprocmask(SIG_BLOCK, &begin, NULL);
    signal(SIGUSR1, on_signal);
    puts("ready");
    fflush(stdout);
    sigwait(&begin, &number);
    for (size_t i = 0; argc > 2 && i < sizeof cases / sizeof *cases; i++)
        for (unsigned long hit = 0; strcmp(argv[1], cases[i].name) == 0 && hit < times; hit++)
            cases[i].hit(hit);
    return 0;
}

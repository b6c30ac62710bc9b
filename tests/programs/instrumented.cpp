/* Calls functions in many ways and prints how often, for a comparison with the recorded entries and exits: recursion,
 * exceptions, longjmp, inlined functions, a shared library. To be compiled with -finstrument-functions. */
#include "instrumented.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace {

jmp_buf back;
volatile int sink;

struct Solver {
    __attribute__((noinline)) int step(int n)
    {
        COUNT(STEP);
        for (int i = 0; i < 100; i++)
            sink = sink + n;
        return n;
    }
};

__attribute__((noinline)) int recurse(int n)
{
    COUNT(RECURSE);
    return n <= 1 ? 1 : recurse(n - 1) + recurse(n - 2);
}

inline __attribute__((always_inline)) int inlined(int n)
{
    COUNT(INLINED);
    return n + sink;
}

__attribute__((noinline)) void risky(int n)
{
    COUNT(RISKY);
    if (n % 3 == 0)
        throw std::runtime_error("every third");
}

__attribute__((noinline)) void middle(int n)
{
    COUNT(MIDDLE);
    risky(n);
}

__attribute__((noinline)) int handler(int n)
{
    COUNT(HANDLER);
    try {
        middle(n);
    } catch (const std::runtime_error &) {
        return 1;
    }
    return 0;
}

__attribute__((noinline)) void jump(int depth)
{
    COUNT(JUMP);
    if (depth < 0)
        return;
    if (depth == 0)
        longjmp(back, 1);
    jump(depth - 1);
    sink = sink + 1;
}

__attribute__((noinline)) int catcher()
{
    COUNT(CATCHER);
    if (setjmp(back) == 0)
        jump(2);
    return 0;
}

int callback(int n)
{
    COUNT(CALLBACK);
    return n;
}

} // namespace

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 10;
    Solver solver;
    COUNT(MAIN);
    for (int round = 0; round < rounds; round++) {
        sink = solver.step(round) + recurse(6) + inlined(round) + handler(round) + library_work(round, callback);
        catcher();
    }
    static const char *const names[KINDS] = {"main", "(anonymous namespace)::Solver::step(int)",
        "(anonymous namespace)::recurse(int)", "(anonymous namespace)::inlined(int)", "(anonymous namespace)::risky(int)",
        "(anonymous namespace)::middle(int)", "(anonymous namespace)::handler(int)", "(anonymous namespace)::jump(int)",
        "(anonymous namespace)::catcher()", "local", "library_work", "(anonymous namespace)::callback(int)"};
    for (int kind = 0; kind < KINDS; kind++)
        std::printf("%s\t%ld\n", names[kind], counts[kind]);
    return 0;
}

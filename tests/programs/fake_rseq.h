/* An rseq area that the kernel does not know, for programs that are stepped through: the kernel would abort the section
 * at each step. The C library's symbols refer to it, because a program's own definitions precede those of libraries. */
#ifndef FAKE_RSEQ_H
#define FAKE_RSEQ_H

#include <stdint.h>

/* The begin of the kernel's `struct rseq`. With all zeros, the thread is on CPU 0 and in no section. */
struct fake_rseq {
    uint32_t cpu_id_start, cpu_id;
    uint64_t rseq_cs;
    uint64_t rest[2];
};

__attribute__((aligned(32))) __thread struct fake_rseq fake_rseq;

__asm__(".pushsection .data.rel.ro, \"aw\"\n"
        ".balign 8\n"
        ".globl __rseq_offset, __rseq_size\n"
        ".type __rseq_offset, @object\n"
        ".size __rseq_offset, 8\n"
        "__rseq_offset: .quad fake_rseq@tpoff\n"
        ".type __rseq_size, @object\n"
        ".size __rseq_size, 4\n"
        "__rseq_size: .long 32\n"
        ".popsection");

#endif

/* Seccomp filters for test programs. */
#ifndef FILTER_H
#define FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Applies to all threads from now on: system calls on the list return `listed`, others `others`. */
static inline void filter(const unsigned *list, unsigned char length, unsigned listed, unsigned others)
{
    struct sock_filter code[64];
    unsigned short at = 0;
    code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned char i = 0; i < length; i++)
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, list[i], (unsigned char)(length - i), 0);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
    const struct sock_fprog program = {at, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
        perror("seccomp");
        exit(3);
    }
}

#endif

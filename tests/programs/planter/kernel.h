/* Kinds in which the kernel keeps the victim from its CPU: packets that another CPU hands over, disabled interrupts. */
#include "common.h"
#include <linux/bpf.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>

/* Packets that are steered to the victim's CPU (RPS), which answers each of them: echo requests. The sender has a
 * loopback device of its own, so that nobody else's packets are steered. */

static void steer(void)
{
    FILE *cpus;
    if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0
        || mount("sysfs", "/sys", "sysfs", 0, NULL) != 0)
        refused("a network namespace");
    cpus = fopen("/sys/class/net/lo/queues/rx-0/rps_cpus", "w");
    if (!cpus || fprintf(cpus, "%x", 1U << cpu) < 0 || fclose(cpus) != 0)
        refused("rps_cpus");
}

/* Returns a socket that echo requests to the loopback device can be sent by. */
static int open_requests(void)
{
    struct ifreq loopback = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
    const struct sockaddr_in receiver = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int requests = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    if (ioctl(requests, SIOCSIFFLAGS, &loopback) != 0
        || connect(requests, (struct sockaddr *)&receiver, sizeof receiver) != 0)
        refused("a loopback device");
    return requests;
}

enum { BURST = 32, PACKET = 48 << 10 };

static void *sends_packets(void *unused)
{
    /* It takes longer to check, to copy and to answer a packet than to send it. */
    static char packet[PACKET];
    const struct icmphdr request = { .type = ICMP_ECHO, .checksum = htons(0xf7ff) };
    struct iovec bytes = { packet, PACKET };
    struct mmsghdr burst[BURST] = { 0 };
    for (int each = 0; each < BURST; each++)
        burst[each].msg_hdr = (struct msghdr) { .msg_iov = &bytes, .msg_iovlen = 1 };
    memcpy(packet, &request, sizeof request);
    steer();
    const int requests = open_requests();
    for (;;) {
        sem_wait(&asked);
        /* The victim does not wait for the first packet. */
        for (const long begin = now(); !is_at_work && now() - begin < 10 * MS;)
            ;
        while (is_at_work)
            sendmmsg(requests, burst, BURST, 0);
    }
    return unused;
}

/* After some more packets, a thread of the kernel handles the others: one that the victim precedes. */
static long handles_packets(void)
{
    is_at_work = 1;
    return stops(4 * MS / 5, MS / 4);
}

/* The last packets of a round are handled after it. */
static void outlast_packets(void)
{
    rest(20 * MS);
    ask();
}

/* Interrupts that are disabled: by a BPF program that the kernel calls while it has disabled them to send a signal.
 * No module is needed for that, and nothing else is disabled. */

static const char BLOCKER[8] = "blocker";
/* Number of times that the program reads the clock: more than the verifier follows is refused. */
enum { READINGS = 60000 };

static struct bpf_insn instruction(int code, int target, int source, int offset, int immediate)
{
    return (struct bpf_insn) {
        .code = code, .dst_reg = target, .src_reg = source, .off = offset, .imm = immediate };
}

static void attach_blocker(void)
{
    int32_t name[2];
    memcpy(name, BLOCKER, sizeof name);
    /* For a thread of that name: reads the clock again and again. */
    const struct bpf_insn program[] = {
        instruction(BPF_ALU64 | BPF_MOV | BPF_X, 1, 10, 0, 0),
        instruction(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, -16),
        instruction(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, 16),
        instruction(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_current_comm),
        instruction(BPF_LDX | BPF_MEM | BPF_DW, 1, 10, -16, 0),
        instruction(BPF_LD | BPF_IMM | BPF_DW, 2, 0, 0, name[0]),
        instruction(0, 0, 0, 0, name[1]),
        instruction(BPF_JMP | BPF_JNE | BPF_X, 1, 2, 4, 0),
        instruction(BPF_ALU64 | BPF_MOV | BPF_K, 6, 0, 0, READINGS),
        instruction(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_ktime_get_ns),
        instruction(BPF_ALU64 | BPF_SUB | BPF_K, 6, 0, 0, 1),
        instruction(BPF_JMP | BPF_JNE | BPF_K, 6, 0, -3, 0),
        instruction(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0),
        instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
    };
    union bpf_attr load = { .prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT, .insns = (uintptr_t)program,
        .insn_cnt = sizeof program / sizeof *program, .license = (uintptr_t) "GPL" };
    const int loaded = syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof load);
    union bpf_attr open = {
        .raw_tracepoint = { .name = (uintptr_t) "signal_generate", .prog_fd = loaded } };
    if (loaded < 0 || syscall(SYS_bpf, BPF_RAW_TRACEPOINT_OPEN, &open, sizeof open) < 0)
        refused("a BPF program");
}

static void *disables_interrupts(void *unused)
{
    for (;;) {
        sem_wait(&asked);
        /* The thread ignores this signal. */
        syscall(SYS_tgkill, getpid(), gettid(), SIGURG);
    }
    return unused;
}

/* The timer expires while the interrupts of its CPU are disabled: early in the 2 ms or so that the program reads the
 * clock, so that the sleep itself, which no other round has, is far shorter than its lateness. */
static long misses_timer(void)
{
    const long begin = now(), sleep = MS / 4;
    ask();
    rest(sleep);
    return now() - begin - sleep;
}

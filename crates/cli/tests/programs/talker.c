/* Speaks to the recorder as no program should: talker KIND. Not linked with sordino. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int dial(void)
{
    const char *name = getenv("SORDINO_SESSION");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const int connection = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (!name || strlen(name) >= sizeof address.sun_path)
        exit(3);
    memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
    if (connect(connection, (struct sockaddr *)&address, (socklen_t)(sizeof address.sun_family + strlen(name))))
        exit(4);
    return connection;
}

/* A packet of two words, with so many descriptors of a file. */
static void say(int connection, uint64_t hello, uint64_t inode, int file, size_t files)
{
    uint64_t words[2] = { hello, inode };
    struct iovec data = { words, sizeof words };
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(8 * sizeof(int))];
    } control = { 0 };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
    if (files) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(files * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(files * sizeof(int));
        for (size_t i = 0; i < files; i++)
            memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &file, sizeof(int));
    }
    sendmsg(connection, &message, MSG_NOSIGNAL);
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    uint64_t hello;
    memcpy(&hello, "sordino1", sizeof hello);
    if (!strcmp(kind, "silent"))
        for (int i = 0; i < 100; i++)
            dial();
    if (!strcmp(kind, "nonsense"))
        for (uint64_t i = 0; i < 100; i++) {
            say(dial(), i, ~i, 0, 0);
            send(dial(), "sordino1", i % 9, MSG_NOSIGNAL);
        }
    if (!strcmp(kind, "files")) {
        int pipes[2], memory = (int)memfd_create("sordino", MFD_ALLOW_SEALING);
        if (pipe(pipes))
            return 5;
        for (uint64_t i = 0; i < 8; i++) {
            say(dial(), hello, i, memory, i);
            say(dial(), hello, i, pipes[i % 2], i);
            say(dial(), hello, i, 0, i);
        }
    }
    puts("spoken");
    fflush(stdout);
    /* Until it is killed. */
    pause();
    return 0;
}

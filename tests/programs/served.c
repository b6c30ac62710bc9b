/* A user's own mount namespace with an overlay over a FUSE file system that this program serves: `served DEVICE`. It
 * maps a file of the overlay as executable, prints "ready", and then stops answering. Exits with 77 where a user may
 * not do that. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOT = 1, FILE_NODE = 2, SIZE = 8192, UNABLE = 77 };

static volatile int *silent;

static void unable(const char *what)
{
    perror(what);
    exit(UNABLE);
}

static void put(const char *path, const char *text)
{
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, text, strlen(text)) < 0)
        unable(path);
    close(file);
}

static struct fuse_attr attributes(unsigned long node)
{
    struct fuse_attr attr = {.ino = node, .nlink = node == ROOT ? 2 : 1};
    attr.mode = node == ROOT ? S_IFDIR | 0777 : S_IFREG | 0777;
    attr.size = node == ROOT ? 0 : SIZE;
    return attr;
}

/* Returns the length of the answer in `data`, or a negative error. */
static int answer(const struct fuse_in_header *in, const char *name, char *data)
{
    switch (in->opcode) {
    case FUSE_INIT: {
        struct fuse_init_out init = {.major = 7, .minor = 31, .max_readahead = 4096, .max_write = 4096};
        memcpy(data, &init, sizeof init);
        return sizeof init;
    }
    case FUSE_LOOKUP: {
        struct fuse_entry_out entry = {.nodeid = FILE_NODE, .entry_valid = 1000, .attr = attributes(FILE_NODE)};
        memcpy(data, &entry, sizeof entry);
        return strcmp(name, "f") == 0 ? (int)sizeof entry : -ENOENT;
    }
    case FUSE_GETATTR: {
        struct fuse_attr_out out = {.attr = attributes(in->nodeid)};
        memcpy(data, &out, sizeof out);
        return sizeof out;
    }
    case FUSE_OPEN:
    case FUSE_OPENDIR:
        return sizeof(struct fuse_open_out);
    case FUSE_STATFS:
        return sizeof(struct fuse_statfs_out);
    case FUSE_READ:
        return 4096;
    case FUSE_READDIR:
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
        return 0;
    default:
        return -ENOSYS;
    }
}

static void serve(int device)
{
    static char request[1 << 20];
    for (;;) {
        if (read(device, request, sizeof request) < (ssize_t)sizeof(struct fuse_in_header))
            _exit(1);
        const struct fuse_in_header *in = (const void *)request;
        int takes_none = in->opcode == FUSE_FORGET || in->opcode == FUSE_BATCH_FORGET || in->opcode == FUSE_INTERRUPT;
        if (takes_none || *silent)
            continue;
        struct {
            struct fuse_out_header out;
            char data[SIZE];
        } reply = {.out.unique = in->unique};
        int length = answer(in, request + sizeof *in, reply.data);
        reply.out.error = length < 0 ? length : 0;
        reply.out.len = sizeof reply.out + (length < 0 ? 0 : length);
        if (write(device, &reply, reply.out.len) < 0)
            perror("answer");
    }
}

int main(int argc, char **argv)
{
    char text[256];
    unsigned user = getuid(), group = getgid();
    silent = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc != 2 || unshare(CLONE_NEWUSER | CLONE_NEWNS))
        unable("a user namespace");
    put("/proc/self/setgroups", "deny");
    snprintf(text, sizeof text, "0 %u 1", user);
    put("/proc/self/uid_map", text);
    snprintf(text, sizeof text, "0 %u 1", group);
    put("/proc/self/gid_map", text);
    if (mount("t", "/mnt", "tmpfs", 0, NULL) || mkdir("/mnt/l", 0755) || mkdir("/mnt/m", 0755) || mkdir("/mnt/o", 0755))
        unable("a file system");
    int device = open(argv[1], O_RDWR);
    if (device < 0)
        unable(argv[1]);
    snprintf(text, sizeof text, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    if (mount("x", "/mnt/l", "fuse", 0, text))
        unable("FUSE");
    if (fork() == 0)
        serve(device);
    close(device);
    if (mount("o", "/mnt/o", "overlay", 0, "lowerdir=/mnt/l:/mnt/m"))
        unable("overlayfs");
    int file = open("/mnt/o/f", O_RDONLY);
    if (file < 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0) == MAP_FAILED)
        unable("a mapping");
    *silent = 1;
    puts("ready");
    fflush(stdout);
    sleep(60);
    return 0;
}

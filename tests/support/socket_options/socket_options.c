/* Reports on standard error when a program asks the kernel to encrypt TLS itself (TCP_ULP).

       LD_PRELOAD=socket_options.so program
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    int (*own)(int, int, int, const void *, socklen_t) = dlsym(RTLD_NEXT, "setsockopt");

    if (level == IPPROTO_TCP && name == TCP_ULP)
        fprintf(stderr, "TCP_ULP %.*s\n", (int)length, (const char *)value);
    return own(fd, level, name, value, length);
}

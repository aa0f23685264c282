/* floor: the bare C loop that every broker's cost is measured against.
 *
 * It does what no broker that keeps its promise can leave out, and nothing else: epoll, find the
 * frame by its length prefix, crc32 of the body, copy, one pwrite per turn into a recycled
 * preallocated file, one send per connection with all its acks. No header is read, no queue is
 * kept, no reply is composed: the ack is a constant. The work per message is therefore the system
 * calls, one checksum and one copy.
 *
 *   turn = epoll_wait -> each ready connection: recv, frames, crc32, copy
 *          -> pwrite [-> fdatasync] -> send acks
 *
 * What is copied is the body and RECORD_OVERHEAD bytes before it, which is what a broker's record
 * holds beside the body (fixed fields, topic, properties), so floor and broker write the same
 * number of bytes. A batch frame is one message here: divide by the batch yourself.
 *
 * Example: a frame of 4 + 4 + 380 header + 256 body bytes: crc32 over 256, 464 bytes to the file,
 * 190 bytes back.
 *
 *   floor --port 29000 [--file PATH] [--file-mb 1024] [--sync]
 *       serve until SIGTERM; prints "ready PORT"
 *   floor --probe SECONDS [--file PATH] [--record BYTES] [--fresh]
 *       pwrite + fdatasync in a loop; prints JSON. SECONDS 0: one probe per line of seconds on
 *       stdin, so that making and removing the file does not disturb what is measured
 *
 * --sync: fdatasync once per turn before the acks leave (group commit: all that arrived while the
 * disk worked is the next turn). --fresh: the file is only fallocated, so each sync also converts
 * extents; without it the file has been written once before (recycled), which is the faster kind
 * and the usual state of a broker with history.
 *
 * The acks carry opaque 0: use a client that matches replies by order (rmq bench --in-order).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "crc32.h"

enum {
    ACK_BYTES = 190,
    ACKS_PER_SEND = 1024,
    RECORD_OVERHEAD = 208,
    EVENTS = 256,
    CONNECTIONS_MAX = 65536,
    GATHER_PASSES_MAX = 64,
    INPUT_BYTES = 256 * 1024,   /* also the largest frame it takes */
    TURN_BYTES = 4 * 1024 * 1024
};

struct connection {
    int fd;
    int waits_for_room;      /* EPOLLOUT is asked for */
    int listed;              /* in `served` of this turn */
    int gone;                /* closed by the other side, or it sent nonsense */
    uint32_t used;           /* bytes in input */
    uint32_t acks;           /* owed this turn */
    uint64_t stream_bytes;   /* ack bytes sent so far: position in the periodic stream */
    uint64_t owed_bytes;     /* ack bytes not sent yet */
    uint8_t *input;
};

static struct connection *served[CONNECTIONS_MAX];   /* read from in this turn */
static uint32_t served_count;
static uint8_t acks[(ACKS_PER_SEND + 1) * ACK_BYTES];
static uint8_t *turn;                /* what the next pwrite carries */
static uint64_t turn_used;
static uint64_t file_bytes = 1024ull << 20, file_position;
static int file_fd, epoll_fd, sync_each_turn;
static volatile sig_atomic_t stopping;
static uint32_t checksum_sink;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void stop(int signal_number)
{
    (void)signal_number;
    stopping = 1;
}

/* A constant reply that a client takes for a good send: 4 + 4 + JSON padded with blanks. */
static void make_acks(void)
{
    static const char json[] =
        "{\"code\":0,\"extFields\":{\"queueId\":\"0\","
        "\"msgId\":\"7F00000100002A9F0000000000000000\",\"queueOffset\":\"0\"},"
        "\"flag\":1,\"language\":\"JAVA\",\"opaque\":0,\"version\":479}";
    uint8_t one[ACK_BYTES];
    uint32_t total = htonl(ACK_BYTES - 4), header = htonl(ACK_BYTES - 8);

    memset(one, ' ', sizeof one);
    memcpy(one, &total, 4);
    memcpy(one + 4, &header, 4);
    memcpy(one + 8, json, sizeof json - 1);
    for (int i = 0; i <= ACKS_PER_SEND; i++)
        memcpy(acks + (size_t)i * ACK_BYTES, one, ACK_BYTES);
}

/* written = 1: every block is written once, so that later writes meet no extent conversion. */
static void open_file(const char *path, int written)
{
    file_fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file_fd < 0)
        die(path);
    if (posix_fallocate(file_fd, 0, (off_t)file_bytes) != 0)
        die("fallocate");
    for (uint64_t at = 0; written && at < file_bytes; at += TURN_BYTES)
        if (pwrite(file_fd, turn, TURN_BYTES, (off_t)at) != TURN_BYTES)
            die("pwrite");
    if (fsync(file_fd) != 0)
        die("fsync");
}

static void write_turn(void)
{
    if (turn_used == 0)
        return;
    if (file_position + turn_used > file_bytes)
        file_position = 0;
    if (pwrite(file_fd, turn, turn_used, (off_t)file_position) != (ssize_t)turn_used)
        die("pwrite");
    file_position += turn_used;
    turn_used = 0;
}

static void drop(struct connection *connection)
{
    close(connection->fd);
    free(connection->input);
    free(connection);
}

static void accept_all(int listener)
{
    for (;;) {
        int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        struct connection *connection = calloc(1, sizeof *connection);
        uint8_t *input = malloc(INPUT_BYTES);
        if (fd >= CONNECTIONS_MAX || connection == NULL || input == NULL)
            die("accept");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        connection->fd = fd;
        connection->input = input;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
    }
}

static void take_frame(const uint8_t *frame, uint32_t total, uint32_t header)
{
    uint32_t body = total - 8 - header;
    uint32_t record = body + RECORD_OVERHEAD < total ? body + RECORD_OVERHEAD : total;

    if (turn_used + record > TURN_BYTES)
        write_turn();
    checksum_sink ^= rmq_crc32(0, frame + 8 + header, body);
    memcpy(turn + turn_used, frame + total - record, record);
    turn_used += record;
}

/* One recv, all whole frames in it. Returns 0 when the connection is gone. */
static int read_connection(struct connection *connection)
{
    uint8_t *free_at = connection->input + connection->used;
    ssize_t got = recv(connection->fd, free_at, INPUT_BYTES - connection->used, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        return 0;
    if (got < 0)
        return 1;
    connection->used += (uint32_t)got;
    uint32_t at = 0;
    while (connection->used - at >= 8) {
        uint32_t length, header;
        memcpy(&length, connection->input + at, 4);
        memcpy(&header, connection->input + at + 4, 4);
        length = ntohl(length);
        header = ntohl(header) & 0xFFFFFF;
        if (length > INPUT_BYTES - 4 || length < 4 || header > length - 4)
            return 0;
        if (connection->used - at < length + 4)
            break;
        take_frame(connection->input + at, length + 4, header);
        at += length + 4;
        connection->acks++;
    }
    if (at > 0 && at < connection->used)
        memmove(connection->input, connection->input + at, connection->used - at);
    connection->used -= at;
    return 1;
}

static int send_acks(struct connection *connection)
{
    connection->owed_bytes += (uint64_t)connection->acks * ACK_BYTES;
    connection->acks = 0;
    while (connection->owed_bytes > 0) {
        uint64_t phase = connection->stream_bytes % ACK_BYTES;
        uint64_t most = (uint64_t)ACKS_PER_SEND * ACK_BYTES;
        uint64_t bytes = connection->owed_bytes < most ? connection->owed_bytes : most;
        ssize_t sent = send(connection->fd, acks + phase, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return 0;
        if (sent > 0) {
            connection->stream_bytes += (uint64_t)sent;
            connection->owed_bytes -= (uint64_t)sent;
        }
        if (sent < 0 || (uint64_t)sent < bytes)
            break;
    }
    if ((connection->owed_bytes > 0) != connection->waits_for_room) {
        connection->waits_for_room = connection->owed_bytes > 0;
        struct epoll_event event = {.data.ptr = connection};
        event.events = connection->waits_for_room ? EPOLLIN | EPOLLOUT : EPOLLIN;
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
    }
    return 1;
}

static int listen_on(int port)
{
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t length = sizeof address;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 4096) != 0)
        die("listen");
    getsockname(fd, (struct sockaddr *)&address, &length);
    printf("ready %d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void remember(struct connection *connection)
{
    if (!connection->listed)
        served[served_count++] = connection;
    connection->listed = 1;
}

/* Reads whatever is ready; the number of connections that were. */
static int read_pass(int listener, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(epoll_fd, events, EVENTS, timeout_ms);

    for (int i = 0; i < count; i++) {
        struct connection *connection = events[i].data.ptr;
        if (connection == NULL) {
            accept_all(listener);
            continue;
        }
        if ((events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !connection->gone)
            connection->gone = !read_connection(connection);
        remember(connection);
    }
    return count;
}

static void serve(int port)
{
    struct epoll_event listening = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int listener = listen_on(port);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &listening);
    while (!stopping) {
        read_pass(listener, -1);
        /* A sync costs as much as reading dozens of connections: take all that is there first. */
        for (int pass = 0; sync_each_turn && pass < GATHER_PASSES_MAX; pass++)
            if (read_pass(listener, 0) <= 0)
                break;
        int wrote = turn_used > 0;
        write_turn();
        if (wrote && sync_each_turn && fdatasync(file_fd) != 0)
            die("fdatasync");
        for (uint32_t i = 0; i < served_count; i++) {
            served[i]->listed = 0;
            if (served[i]->gone || !send_acks(served[i]))
                drop(served[i]);
        }
        served_count = 0;
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void probe(double seconds, uint64_t record)
{
    double start = now(), end = start;
    uint64_t count = 0;
    while (end - start < seconds) {
        turn_used = record;
        write_turn();
        if (fdatasync(file_fd) != 0)
            die("fdatasync");
        count++;
        end = now();
    }
    printf("{\"syncs\": %llu, \"seconds\": %.6f, \"per_second\": %.1f}\n",
           (unsigned long long)count, end - start, (double)count / (end - start));
    fflush(stdout);
}

/* One probe per line of seconds on stdin: the file is made once, long before it is measured. */
static void probe_on_request(uint64_t record)
{
    double seconds;
    printf("ready\n");
    fflush(stdout);
    while (scanf("%lf", &seconds) == 1 && seconds > 0)
        probe(seconds, record);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"port", required_argument, NULL, 'p'}, {"file", required_argument, NULL, 'f'},
        {"file-mb", required_argument, NULL, 'm'}, {"sync", no_argument, NULL, 's'},
        {"probe", required_argument, NULL, 'b'}, {"record", required_argument, NULL, 'r'},
        {"fresh", no_argument, NULL, 'u'}, {NULL, 0, NULL, 0},
    };
    const char *path = "floor.data";
    double probe_seconds = -1;
    uint64_t record = 464;
    int port = 0, fresh = 0, option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'p': port = atoi(optarg); break;
        case 'f': path = optarg; break;
        case 'm': file_bytes = strtoull(optarg, NULL, 10) << 20; break;
        case 's': sync_each_turn = 1; break;
        case 'b': probe_seconds = atof(optarg); break;
        case 'r': record = strtoull(optarg, NULL, 10); break;
        case 'u': fresh = 1; break;
        default: return 2;
        }
    }
    if (file_bytes < TURN_BYTES || file_bytes % TURN_BYTES != 0 || record == 0 ||
        record > TURN_BYTES) {
        fprintf(stderr, "floor: --file-mb must be a multiple of 4, --record within 1 .. 4 MiB\n");
        return 2;
    }
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    turn = calloc(1, TURN_BYTES);
    if (turn == NULL)
        die("calloc");
    make_acks();
    open_file(path, !fresh);
    if (probe_seconds > 0)
        probe(probe_seconds, record);
    else if (probe_seconds == 0)
        probe_on_request(record);
    else
        serve(port);
    unlink(path);
    return checksum_sink == 1 ? 3 : 0;
}

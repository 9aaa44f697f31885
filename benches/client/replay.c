/*
 * replay: the client of benches/cache. It asks for the values of a trace as a build tool does: GET, and on 404 PUT.
 *
 *   replay --port P --trace FILE --prefix PREFIX [--fills] [--connections N] [--rate R]
 *
 * FILE is pairs of 32 bits: the number of a key and the length of its value. A target is PREFIX and 64 hexadecimal digits
 * made from the number. With --fills the server gets what it lacks by itself: the length stands before the digits, there is
 * no PUT, and a hit is an answer with `X-Cache: HIT`.
 *
 * The connections take the requests in the order of the trace, and each waits for its own answers: so the order at the server
 * is that of the trace, but for the requests that are under way at once. With --rate a request waits for its moment, R of them
 * a second. A value begins with the number of its key. Each answer is checked: its status, its length and, without --fills, that
 * number.
 *
 * Standard output: one line of JSON, with the time from the first byte of a PUT to its answer: the median, of 100 the longest
 * but one, and the longest. A refused PUT is no error: it is counted by its status.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

enum { BODY_MAX = 1 << 20, CONNECTIONS_MAX = 64, ERRORS_MAX = 100 };

struct request {
    uint32_t key, size;
};

static struct {
    uint16_t port;
    const char *prefix;
    bool fills;
    double rate; /* requests a second; 0 for as many as there can be */
} options;

static const struct request *trace;
static uint64_t requests;
static struct timespec from;
static float *put_seconds; /* of the PUTs that were answered, in any order */
static atomic_uint_fast64_t next, hits, misses, stored, refused, wrong, errors, body_bytes, last_wrong, last_refusal;

/* A pseudo-random number for each number (splitmix64). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static double seconds_since(struct timespec then)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - then.tv_sec) + (double)(now.tv_nsec - then.tv_nsec) / 1e9;
}

static int connect_to_server(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || connect(s, (struct sockaddr *)&address, sizeof address) < 0) {
        perror("replay: connect");
        exit(1);
    }
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return s;
}

static bool send_all(int s, const char *bytes, size_t len, int flags)
{
    while (len) {
        ssize_t sent = send(s, bytes, len, flags | MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

struct answer {
    int status;
    long long length;
    uint32_t key; /* what the body begins with, if it has so much */
    bool is_hit;
};

/* Take an answer whole; false where the connection broke or the answer makes no sense. */
static bool receive(int s, struct answer *answer)
{
    char buffer[16384 + 1];
    size_t len = 0;
    char *end = NULL;
    while (!end) {
        ssize_t got = recv(s, buffer + len, sizeof buffer - 1 - len, 0);
        if (got <= 0)
            return false;
        len += (size_t)got;
        end = memmem(buffer, len, "\r\n\r\n", 4);
    }
    size_t head = (size_t)(end - buffer) + 4;
    end[2] = '\0'; /* the head alone, as a string */
    const char *length = strcasestr(buffer, "\r\nContent-Length:");
    answer->status = atoi(buffer + strlen("HTTP/1.1 "));
    answer->is_hit = strcasestr(buffer, "\r\nX-Cache: HIT") != NULL;
    answer->length = length ? strtoll(length + strlen("\r\nContent-Length:"), NULL, 10) : answer->status == 204 ? 0 : -1;
    if (answer->length < 0 || (size_t)answer->length < len - head)
        return false;
    while (len - head < sizeof answer->key && len - head < (size_t)answer->length) {
        ssize_t got = recv(s, buffer + len, sizeof answer->key - (len - head), 0);
        if (got <= 0)
            return false;
        len += (size_t)got;
    }
    memcpy(&answer->key, buffer + head, sizeof answer->key);
    for (size_t left = (size_t)answer->length - (len - head); left;) {
        ssize_t got = recv(s, NULL, left, MSG_TRUNC);
        if (got <= 0)
            return false;
        left -= (size_t)got;
    }
    return true;
}

static void count_wrong(const struct answer *answer)
{
    atomic_fetch_add(&wrong, 1);
    atomic_store(&last_wrong, (uint64_t)answer->status);
}

/* Ask for a value, and store it if it is not there; false where the connection is of no more use. */
static bool ask(int s, const struct request *wanted, char *body)
{
    char target[512], head[1024];
    size_t len = 0;
    if (options.fills)
        len = (size_t)snprintf(target, sizeof target, "%s%u/", options.prefix, wanted->size);
    else
        len = (size_t)snprintf(target, sizeof target, "%s", options.prefix);
    for (uint64_t part = 0; part < 4; part++)
        len += (size_t)snprintf(target + len, sizeof target - len, "%016llx", (unsigned long long)mix(wanted->key * 4ULL + part));
    struct answer answer;
    int head_len = snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", target, options.port);
    if (!send_all(s, head, (size_t)head_len, 0) || !receive(s, &answer))
        return false;
    if (answer.status == 200) {
        bool is_hit = !options.fills || answer.is_hit;
        atomic_fetch_add(is_hit ? &hits : &misses, 1);
        atomic_fetch_add(&body_bytes, (uint64_t)answer.length);
        if (answer.length != wanted->size || (!options.fills && answer.key != wanted->key))
            count_wrong(&answer);
        return true;
    }
    atomic_fetch_add(&misses, 1);
    if (answer.status != 404 || options.fills) {
        count_wrong(&answer);
        return true;
    }
    memcpy(body, &wanted->key, sizeof wanted->key);
    struct timespec begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    head_len = snprintf(head, sizeof head, "PUT %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Length: %u\r\n\r\n", target, options.port, wanted->size);
    if (!send_all(s, head, (size_t)head_len, MSG_MORE) || !send_all(s, body, wanted->size, 0) || !receive(s, &answer))
        return false;
    put_seconds[atomic_fetch_add(&stored, 1)] = (float)seconds_since(begin);
    if (answer.status / 100 != 2) {
        atomic_fetch_add(&refused, 1);
        atomic_store(&last_refusal, (uint64_t)answer.status);
    }
    return true;
}

static void await_moment(uint64_t at)
{
    double wait = options.rate > 0 ? (double)at / options.rate - seconds_since(from) : 0;
    if (wait > 0)
        usleep((useconds_t)(1e6 * wait));
}

static void *run(void *unused)
{
    char *body = calloc(1, BODY_MAX);
    int s = connect_to_server();
    for (uint64_t at; (at = atomic_fetch_add(&next, 1)) < requests && atomic_load(&errors) <= ERRORS_MAX;) {
        await_moment(at);
        if (ask(s, &trace[at], body))
            continue;
        atomic_fetch_add(&errors, 1);
        close(s);
        s = connect_to_server();
    }
    close(s);
    free(body);
    return unused;
}

static void map_trace(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (file < 0 || fstat(file, &about) < 0) {
        perror(path);
        exit(2);
    }
    requests = (uint64_t)about.st_size / sizeof *trace;
    trace = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    for (uint64_t i = 0; trace != MAP_FAILED && i < requests; i++)
        if (trace[i].size < sizeof trace[i].key || trace[i].size > BODY_MAX)
            trace = MAP_FAILED;
    if (trace == MAP_FAILED) {
        fprintf(stderr, "replay: %s is no trace\n", path);
        exit(2);
    }
    close(file);
}

static int by_length(const void *a, const void *b)
{
    float left = *(const float *)a, right = *(const float *)b;
    return (left > right) - (left < right);
}

/* The time of the PUT that this share of them do not exceed, in milliseconds, once they are in order. */
static double put_ms(uint64_t puts, double share)
{
    return puts ? 1e3 * (double)put_seconds[(uint64_t)((double)(puts - 1) * share)] : 0;
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"port", 1, 0, 'p'},        {"trace", 1, 0, 't'}, {"prefix", 1, 0, 'x'}, {"fills", 0, 0, 'f'},
                                          {"connections", 1, 0, 'c'}, {"rate", 1, 0, 'r'},  {0, 0, 0, 0}};
    const char *path = NULL;
    int connections = 1;
    options.prefix = "/";
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
        case 'p': options.port = (uint16_t)atoi(optarg); break;
        case 't': path = optarg; break;
        case 'x': options.prefix = optarg; break;
        case 'f': options.fills = true; break;
        case 'c': connections = atoi(optarg); break;
        case 'r': options.rate = atof(optarg); break;
        default: return 2;
        }
    }
    if (!path || !options.port || connections < 1 || connections > CONNECTIONS_MAX || strlen(options.prefix) > 256) {
        fprintf(stderr, "usage: replay --port P --trace FILE --prefix PREFIX [--fills] [--connections N] [--rate R]\n");
        return 2;
    }
    map_trace(path);
    put_seconds = calloc(requests, sizeof *put_seconds);
    pthread_t threads[CONNECTIONS_MAX];
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < connections; i++)
        if (pthread_create(&threads[i], NULL, run, NULL)) {
            fprintf(stderr, "replay: no thread\n");
            return 1;
        }
    for (int i = 0; i < connections; i++)
        pthread_join(threads[i], NULL);
    double seconds = seconds_since(from);
    uint64_t puts = atomic_load(&stored);
    qsort(put_seconds, puts, sizeof *put_seconds, by_length);
    printf("{\"requests\": %llu, \"seconds\": %.6f, \"hits\": %llu, \"misses\": %llu, \"puts\": %llu, \"refused\": %llu, "
           "\"last_refusal\": %llu, \"wrong\": %llu, \"last_wrong\": %llu, \"errors\": %llu, \"body_bytes\": %llu, "
           "\"put_p50_ms\": %.4f, \"put_p99_ms\": %.4f, \"put_max_ms\": %.4f}\n",
           (unsigned long long)requests, seconds, (unsigned long long)hits, (unsigned long long)misses, (unsigned long long)puts,
           (unsigned long long)refused, (unsigned long long)last_refusal, (unsigned long long)wrong,
           (unsigned long long)last_wrong, (unsigned long long)errors,
           (unsigned long long)body_bytes, put_ms(puts, 0.5), put_ms(puts, 0.99), put_ms(puts, 1));
    return 0;
}

/*
 * load: the client of the benches. One thread, one epoll, a closed loop: every connection has one request under
 * way and sends the next as soon as the answer is complete.
 *
 *   load --port P --get|--head|--put --size N [--prefix NAME] [--keys N | --new] [--targets FILE] [--connections N]
 *        [--fresh] [--header LINE ...] [--rate R] [--cold DIR] [--seconds S] [--requests N] [--patience S] [--share K/N] [--spin]
 *
 * Requests name /<prefix><number>: numbers cycle below --keys, or with --new never repeat. --fresh takes a new
 * connection for each request (Connection: close) and waits for the server to close it. The run ends after --seconds
 * or once --requests have been sent, whichever is first; requests under way then are still waited for, and counted, for
 * --patience seconds (30); what has no answer by then is counted as unanswered.
 *
 * With --rate the loop is open: R requests a second, evenly spaced, each on a connection that rests, whatever became of
 * those before it. Latencies then run from when a request was due, also when it had to wait for a connection.
 *
 * With --targets the file has a line for each number, the request target to send for it: presigned ones, for example.
 *
 * --header adds a line to each request, and may be given several times. Of an answer without a Content-Length (--fresh
 * only) all until the connection is closed is taken, whatever its length. --cold has the kernel forget DIR/<prefix><number> before each request for it.
 *
 * With --share K/N all connections are opened first, and only each N-th, from the K-th on, counted from 0, is used: of a
 * server that gives its threads connections in turn, this asks one thread alone.
 *
 * With --spin it polls without ever sleeping: for a processor of its own, where waking it up would be paid for by the
 * server, and dearly on a virtual machine, which makes figures jump.
 *
 * It is meant to cost less than any server it drives: small answers take one recv, the bodies of large ones are
 * dropped inside the kernel (MSG_TRUNC), small requests take one send, large bodies are sent by sendfile from one
 * piece of shared memory. It checks the status and the length of every answer; not the content.
 *
 * Standard output: one line of JSON. Latencies run from the start of sending to the end of the answer, with a fresh
 * connection from before connect; they are kept in a histogram, exact to 1.6%.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    HEAD_MAX = 1024,        /* bytes of a request line or of the head of an answer */
    TARGET_MAX = 1000,      /* of a target in the file of --targets */
    FIELDS_MAX = 4096,      /* bytes of the fields of a request */
    SMALL_MAX = 64 * 1024,  /* bodies up to this size are sent and received together with their head */
    SHARED = 1024 * 1024,   /* memory that larger bodies are sent from */
    SUB_BUCKETS = 64,       /* of a power of two in the histogram */
    BUCKETS = 64 * SUB_BUCKETS,
    ERRORS_MAX = 100,       /* give up: the run is invalid anyway */
    EVENTS = 256,
    TURN = 4,               /* steps of one connection before the others get theirs */
};

static struct {
    uint16_t port;
    bool put, head, fresh, new_names, spin;
    uint64_t size, keys, requests;
    int connections, share, shares;
    double seconds, rate, patience;
    const char *prefix, *cold, *targets;
} options = {.keys = 1, .requests = UINT64_MAX, .connections = 1, .shares = 1, .seconds = 1, .patience = 30,
             .prefix = "key-"};

static struct {
    uint64_t requests, body_bytes, non_2xx, errors, unanswered;
    uint64_t first_ns, last_ns, max_ns;
    uint64_t histogram[BUCKETS];
} result;

enum phase { IDLE, SENDING_HEAD, SENDING_BODY, RECEIVING_HEAD, RECEIVING_BODY, RECEIVING_ALL, AWAITING_CLOSE };

struct connection {
    int socket; /* -1: none */
    enum phase phase;
    uint64_t started_ns;
    uint64_t left;       /* of the body, to send or to receive */
    size_t sent;         /* of the request line, the fields and the small body behind them */
    size_t head_len;     /* of the request line; later the bytes of the answer's head so far */
    bool queued;         /* its turn ended before the socket blocked */
    bool rests;          /* waits for a request to be due */
    bool unused;         /* belongs to another share */
    struct connection *next;
    char head[HEAD_MAX]; /* the request line; later the head of the answer, when it comes in pieces */
};

static int epoll;
static int shared; /* memory file that large bodies are sent from */
static uint64_t started, under_way, deadline_ns;
static struct connection *queue_first, *queue_last, *resting;
static char answer[HEAD_MAX + SMALL_MAX], small_body[SMALL_MAX];
static char headers[FIELDS_MAX], fields[2 * FIELDS_MAX]; /* the lines of --header; the fields of every request */
static size_t headers_len, fields_len;
static char **targets; /* the lines of --targets, one for each of --keys */

_Noreturn static void die(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- latencies -------------------------------------------------------------------------------------------------- */

static unsigned bucket_of(uint64_t ns)
{
    if (ns < SUB_BUCKETS)
        return (unsigned)ns;
    unsigned shift = 63u - (unsigned)__builtin_clzll(ns) - 6u;
    return (shift + 1) * SUB_BUCKETS + (unsigned)((ns >> shift) - SUB_BUCKETS);
}

static double bucket_us(unsigned bucket)
{
    if (bucket < SUB_BUCKETS)
        return bucket / 1e3;
    unsigned shift = bucket / SUB_BUCKETS - 1;
    return ((double)(SUB_BUCKETS + bucket % SUB_BUCKETS) + 0.5) * (double)(1ull << shift) / 1e3;
}

static double quantile_us(double q)
{
    uint64_t seen = 0, wanted = (uint64_t)((double)result.requests * q);
    for (unsigned i = 0; i < BUCKETS; i++) {
        seen += result.histogram[i];
        if (seen > wanted)
            return bucket_us(i);
    }
    return (double)result.max_ns / 1e3;
}

/* ---- one connection --------------------------------------------------------------------------------------------- */

static void disconnect(struct connection *c)
{
    if (c->socket >= 0)
        close(c->socket);
    c->socket = -1;
    c->phase = IDLE;
}

static void fail(struct connection *c)
{
    result.errors++;
    under_way--;
    disconnect(c);
}

/* Connecting over loopback does not wait: only what follows is non-blocking. */
static bool connect_to_server(struct connection *c)
{
    int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options.port)};
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return c->socket >= 0 && setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
           connect(c->socket, (struct sockaddr *)&address, sizeof address) == 0 &&
           fcntl(c->socket, F_SETFL, O_NONBLOCK) == 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, c->socket, &event) == 0;
}

static void write_line(struct connection *c, uint64_t number)
{
    const char *method = options.put ? "PUT" : options.head ? "HEAD" : "GET";
    if (targets)
        c->head_len = (size_t)snprintf(c->head, HEAD_MAX, "%s %s HTTP/1.1\r\n", method, targets[number]);
    else
        c->head_len = (size_t)snprintf(c->head, HEAD_MAX, "%s /%s%llu HTTP/1.1\r\n", method, options.prefix,
                                       (unsigned long long)number);
}

static void read_targets(void)
{
    FILE *file = fopen(options.targets, "re");
    targets = calloc(options.keys, sizeof *targets);
    if (!file || !targets)
        die(options.targets);
    for (uint64_t i = 0; i < options.keys; i++) {
        size_t room = 0;
        ssize_t len = getline(&targets[i], &room, file);
        if (len < 1 || len > TARGET_MAX) {
            fprintf(stderr, "load: %s: line %llu is missing or too long\n", options.targets, (unsigned long long)i + 1);
            exit(2);
        }
        targets[i][strcspn(targets[i], "\n")] = '\0';
    }
    fclose(file);
}

/* What every request has behind its line, made once: it may be long. */
static void write_fields(void)
{
    char length[64] = "";
    if (options.put)
        snprintf(length, sizeof length, "Content-Length: %llu\r\n", (unsigned long long)options.size);
    fields_len = (size_t)snprintf(fields, sizeof fields, "Host: 127.0.0.1:%u\r\n%s%s%s\r\n", options.port,
                                  options.fresh ? "Connection: close\r\n" : "", headers, length);
}

enum progress { MOVED, BLOCKED, BROKEN, ENDED }; /* ENDED: the request is over */

static enum progress failed_call(void)
{
    return errno == EAGAIN ? BLOCKED : BROKEN;
}

/* The head and the body, when it is small, in one send. */
static enum progress send_head(struct connection *c)
{
    size_t small = options.put && options.size <= SMALL_MAX ? options.size : 0;
    struct iovec parts[] = {{c->head, c->head_len}, {fields, fields_len}, {small_body, small}};
    struct iovec *first = parts;
    size_t done = c->sent;
    for (; done >= first->iov_len && first < &parts[2]; first++)
        done -= first->iov_len;
    first->iov_base = (char *)first->iov_base + done;
    first->iov_len -= done;
    struct msghdr message = {.msg_iov = first, .msg_iovlen = (size_t)(&parts[3] - first)};
    ssize_t sent = sendmsg(c->socket, &message, c->left ? MSG_MORE : 0);
    if (sent < 0)
        return failed_call();
    c->sent += (size_t)sent;
    if (c->sent == c->head_len + fields_len + small) {
        c->phase = c->left ? SENDING_BODY : RECEIVING_HEAD;
        c->head_len = 0;
    }
    return MOVED;
}

static enum progress send_body(struct connection *c)
{
    off_t offset = (off_t)((options.size - c->left) % SHARED);
    size_t piece = SHARED - (size_t)offset;
    ssize_t sent = sendfile(c->socket, shared, &offset, piece < c->left ? piece : c->left);
    if (sent <= 0)
        return failed_call();
    c->left -= (uint64_t)sent;
    if (!c->left)
        c->phase = RECEIVING_HEAD;
    return MOVED;
}

/* The length of the body behind a head, or -1. A 204 has none and does not say so. */
static long long content_length(const char *head)
{
    if (!strncmp(head + strlen("HTTP/1.1 "), "204", 3))
        return 0;
    const char *line = strcasestr(head, "\r\nContent-Length:");
    return line ? strtoll(line + strlen("\r\nContent-Length:"), NULL, 10) : -1;
}

/* Judge the head in `answer`, which has `len` bytes, of which `head` are the head's. */
static enum progress take_answer(struct connection *c, size_t head, size_t len)
{
    answer[head - 1] = 0; /* the head alone, as a string */
    bool success = !strncmp(answer, "HTTP/1.1 2", 10);
    long long length = content_length(answer);
    if (length < 0 && options.fresh) {
        result.non_2xx += !success;
        c->phase = RECEIVING_ALL;
        return MOVED;
    }
    if (length < 0 || (size_t)length < len - head)
        return BROKEN;
    if (success && !options.put && (uint64_t)length != options.size)
        return BROKEN;
    result.non_2xx += !success;
    if (options.head)
        return ENDED;
    result.body_bytes += options.put ? options.size : (uint64_t)length;
    c->left = (uint64_t)length - (len - head);
    c->phase = RECEIVING_BODY;
    return c->left ? MOVED : ENDED;
}

static enum progress receive_head(struct connection *c)
{
    size_t room = !options.put && options.size <= SMALL_MAX ? sizeof answer : HEAD_MAX;
    memcpy(answer, c->head, c->head_len);
    ssize_t got = recv(c->socket, answer + c->head_len, room - c->head_len, 0);
    if (got <= 0)
        return got < 0 ? failed_call() : BROKEN;
    size_t len = c->head_len + (size_t)got;
    const char *end = memmem(answer, len, "\r\n\r\n", 4);
    if (end)
        return take_answer(c, (size_t)(end - answer) + 4, len);
    if (len >= HEAD_MAX)
        return BROKEN;
    memcpy(c->head, answer, len);
    c->head_len = len;
    return MOVED;
}

static enum progress receive_body(struct connection *c)
{
    ssize_t got = recv(c->socket, NULL, c->left, MSG_TRUNC);
    if (got <= 0)
        return got < 0 ? failed_call() : BROKEN;
    c->left -= (uint64_t)got;
    return c->left ? MOVED : ENDED;
}

static enum progress receive_all(struct connection *c)
{
    ssize_t got = recv(c->socket, NULL, SHARED, MSG_TRUNC);
    if (got < 0)
        return failed_call();
    result.body_bytes += (uint64_t)got;
    return got ? MOVED : ENDED;
}

static enum progress step(struct connection *c)
{
    switch (c->phase) {
    case SENDING_HEAD: return send_head(c);
    case SENDING_BODY: return send_body(c);
    case RECEIVING_HEAD: return receive_head(c);
    case RECEIVING_BODY: return receive_body(c);
    case RECEIVING_ALL: return receive_all(c);
    default: return BLOCKED;
    }
}

static void complete(struct connection *c)
{
    result.last_ns = now_ns();
    uint64_t took = result.last_ns - c->started_ns;
    under_way--;
    result.requests++;
    result.histogram[bucket_of(took)]++;
    if (took > result.max_ns)
        result.max_ns = took;
    if (c->phase == RECEIVING_ALL)
        disconnect(c);
    else
        c->phase = options.fresh ? AWAITING_CLOSE : IDLE;
}

static void queue(struct connection *c)
{
    c->queued = true;
    c->next = NULL;
    *(queue_first ? &queue_last->next : &queue_first) = c;
    queue_last = c;
}

/* Have the kernel forget a value that is about to be asked for. */
static void forget(uint64_t number)
{
    char path[HEAD_MAX];
    snprintf(path, sizeof path, "%s/%s%llu", options.cold, options.prefix, (unsigned long long)number);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0)
        die(path);
    close(file);
}

/* When the next request of an open loop is due. */
static uint64_t due_ns(void)
{
    return result.first_ns + (uint64_t)((double)started / options.rate * 1e9);
}

/* Begin the next request, if there is to be one; in an open loop it was due at a time of its own. */
static void begin_at(struct connection *c, uint64_t due)
{
    uint64_t now = now_ns();
    if (c->unused || started >= options.requests || now >= deadline_ns || result.errors > ERRORS_MAX)
        return;
    uint64_t number = started++;
    under_way++;
    c->started_ns = due ? due : now;
    if (options.cold)
        forget(options.new_names ? number : number % options.keys);
    if (c->socket < 0 && !connect_to_server(c)) {
        fail(c);
        return;
    }
    write_line(c, options.new_names ? number : number % options.keys);
    c->sent = 0;
    c->left = options.put && options.size > SMALL_MAX ? options.size : 0;
    c->phase = SENDING_HEAD;
    if (send_head(c) == BROKEN)
        fail(c);
    else if (c->phase == SENDING_BODY)
        queue(c);
}

/* Begin the next request, or in an open loop rest until one is due. */
static void begin(struct connection *c)
{
    if (options.rate <= 0) {
        begin_at(c, 0);
    } else if (!c->rests) {
        c->rests = true;
        c->next = resting;
        resting = c;
    }
}

static void begin_what_is_due(void)
{
    while (resting && now_ns() >= due_ns()) {
        struct connection *c = resting;
        resting = c->next;
        c->rests = false;
        uint64_t before = started;
        begin_at(c, due_ns());
        if (started == before || c->phase == IDLE)
            begin(c);
        if (started == before)
            return;
    }
}

static void take_turn(struct connection *c)
{
    enum progress progress = MOVED;
    for (int steps = 0; steps < TURN && progress == MOVED; steps++)
        progress = step(c);
    if (progress == MOVED)
        queue(c);
    else if (progress == BROKEN)
        fail(c);
    else if (progress == ENDED)
        complete(c);
    if (c->phase == IDLE)
        begin(c);
}

static void on_event(struct connection *c, uint32_t events)
{
    if (!c->queued)
        take_turn(c);
    if (c->phase == AWAITING_CLOSE && (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))) {
        disconnect(c);
        begin(c);
    }
}

static void run_queue(void)
{
    struct connection *c = queue_first;
    queue_first = NULL;
    while (c) {
        struct connection *next = c->next;
        c->queued = false;
        take_turn(c);
        c = next;
    }
}

/* ---- the run ---------------------------------------------------------------------------------------------------- */

static bool more_to_begin(void)
{
    return now_ns() < deadline_ns && started < options.requests && result.errors <= ERRORS_MAX;
}

/* How long to wait for something to happen. */
static struct timespec patience(void)
{
    uint64_t longest = 100000000, now = now_ns();
    if (options.spin || queue_first)
        longest = 0;
    else if (resting && more_to_begin() && due_ns() < now + longest)
        longest = due_ns() > now ? due_ns() - now : 0;
    return (struct timespec){.tv_nsec = (long)longest};
}

static void run(struct connection *connections)
{
    struct epoll_event events[EVENTS];
    result.first_ns = result.last_ns = now_ns();
    deadline_ns = result.first_ns + (uint64_t)(options.seconds * 1e9);
    uint64_t limit_ns = deadline_ns + (uint64_t)(options.patience * 1e9);
    for (int i = 0; i < options.connections; i++) {
        connections[i].unused = i % options.shares != options.share;
        if (options.shares > 1 && !connect_to_server(&connections[i]))
            die("connect");
    }
    for (int i = 0; i < options.connections; i++)
        begin(&connections[i]);
    while (under_way || more_to_begin()) {
        if (options.rate > 0)
            begin_what_is_due();
        struct timespec longest = patience();
        int n = epoll_pwait2(epoll, events, EVENTS, &longest, NULL);
        if (n < 0 && errno != EINTR)
            die("epoll_wait");
        for (int i = 0; i < n; i++)
            on_event(events[i].data.ptr, events[i].events);
        run_queue();
        if (now_ns() > limit_ns) {
            result.unanswered = under_way;
            return;
        }
    }
}

static void report(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    double elapsed = (double)(result.last_ns - result.first_ns) / 1e9;
    printf("{\"requests\": %llu, \"body_bytes\": %llu, \"seconds\": %.6f, \"p50_us\": %.1f, \"p99_us\": %.1f, "
           "\"max_us\": %.1f, \"non_2xx\": %llu, \"errors\": %llu, \"unanswered\": %llu, \"client_cpu_seconds\": %.6f}\n",
           (unsigned long long)result.requests, (unsigned long long)result.body_bytes, elapsed, quantile_us(0.5),
           quantile_us(0.99), (double)result.max_ns / 1e3, (unsigned long long)result.non_2xx,
           (unsigned long long)result.errors,
           (unsigned long long)result.unanswered, cpu);
}

_Noreturn static void usage(void)
{
    fputs("usage: load --port P --get|--head|--put --size N [--prefix NAME] [--keys N | --new] [--targets FILE]\n"
          "            [--connections N] [--fresh] [--header LINE ...] [--rate R] [--cold DIR] [--seconds S] [--requests N]\n"
          "            [--patience S] [--share K/N] [--spin]\n",
          stderr);
    exit(2);
}

static void add_header(const char *line)
{
    size_t len = strlen(line);
    if (headers_len + len + sizeof "\r\n" > sizeof headers)
        usage();
    headers_len += (size_t)snprintf(headers + headers_len, sizeof headers - headers_len, "%s\r\n", line);
}

static void parse_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"port", required_argument, NULL, 'p'},        {"get", no_argument, NULL, 'g'},
        {"head", no_argument, NULL, 'h'},              {"header", required_argument, NULL, 'l'},
        {"patience", required_argument, NULL, 'w'},
        {"rate", required_argument, NULL, 'v'},        {"cold", required_argument, NULL, 'd'},
        {"put", no_argument, NULL, 'u'},               {"size", required_argument, NULL, 's'},
        {"prefix", required_argument, NULL, 'x'},      {"keys", required_argument, NULL, 'k'},
        {"new", no_argument, NULL, 'n'},               {"connections", required_argument, NULL, 'c'},
        {"fresh", no_argument, NULL, 'f'},             {"seconds", required_argument, NULL, 't'},
        {"requests", required_argument, NULL, 'r'},    {"spin", no_argument, NULL, 'i'},
        {"share", required_argument, NULL, 'a'},       {"targets", required_argument, NULL, 'o'},
        {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'p': options.port = (uint16_t)atoi(optarg); break;
        case 'g': options.put = false; break;
        case 'u': options.put = true; break;
        case 'h': options.head = true; break;
        case 'l': add_header(optarg); break;
        case 'v': options.rate = atof(optarg); break;
        case 'w': options.patience = atof(optarg); break;
        case 'd': options.cold = optarg; break;
        case 's': options.size = strtoull(optarg, NULL, 10); break;
        case 'x': options.prefix = optarg; break;
        case 'k': options.keys = strtoull(optarg, NULL, 10); break;
        case 'n': options.new_names = true; break;
        case 'o': options.targets = optarg; break;
        case 'c': options.connections = atoi(optarg); break;
        case 'f': options.fresh = true; break;
        case 'a':
            if (sscanf(optarg, "%d/%d", &options.share, &options.shares) != 2)
                usage();
            break;
        case 'i': options.spin = true; break;
        case 't': options.seconds = atof(optarg); break;
        case 'r': options.requests = strtoull(optarg, NULL, 10); break;
        default: usage();
        }
    }
    bool sane = options.port && options.size && options.keys && options.connections > 0 &&
                options.connections <= 10000 && options.share >= 0 && options.share < options.shares &&
                strlen(options.prefix) < 200 && options.rate >= 0 && (!options.cold || strlen(options.cold) < 500) &&
                !(options.targets && options.new_names);
    if (optind != argc || !sane)
        usage();
}

int main(int argc, char **argv)
{
    parse_options(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    memset(small_body, 'x', sizeof small_body);
    write_fields();
    if (options.targets)
        read_targets();
    epoll = epoll_create1(EPOLL_CLOEXEC);
    shared = memfd_create("body", MFD_CLOEXEC);
    struct connection *connections = calloc((size_t)options.connections, sizeof *connections);
    if (epoll < 0 || shared < 0 || !connections)
        die("load");
    for (size_t i = 0; i < SHARED; i += sizeof small_body)
        if (write(shared, small_body, sizeof small_body) != sizeof small_body)
            die("load");
    for (int i = 0; i < options.connections; i++)
        connections[i].socket = -1;
    run(connections);
    report();
}

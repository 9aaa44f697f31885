/*
 * c-server: the bar. A key-value file server over HTTP/1.1 on threads and epoll.
 *
 *   c-server --threads N --dir DIR --port P [--discard] [--listen-mode reuseport|acceptor]
 *
 * What it is: the kind of server data-server was first compared with, written to be as fast as it can honestly
 * be made, so that the comparison says something. One key is one file of one directory. Each of N threads has an
 * epoll of its own and serves whole connections.
 *   GET, HEAD  open, fstat; a small file is read behind its header and both leave in one send, a large one goes out
 *              by sendfile. Nothing is kept between requests: no content, no descriptor.
 *   PUT        received through one buffer per thread, written to a temporary file of the same directory as it
 *              arrives, renamed over the name when complete. With --discard it is written to /dev/null.
 *   DELETE     unlink.
 * Keep-alive, pipelining (answers to requests that arrive together leave together), Expect: 100-continue and
 * Connection: close are honoured.
 *
 * How it is fast: large files sent corked; edge-triggered epoll registered once per connection; a recv that did not fill the buffer is known
 * to have emptied the socket; no allocation per request; a new connection is read at once, before epoll hears of it,
 * and the kernel reports it only when its request is there (TCP_DEFER_ACCEPT). A connection that still has work
 * after its turn queues behind the others.
 *
 * What it is not: a product. It blocks on the disk, has no time limits, no chunked requests (answered 304, as the
 * original did), no ranges, no conditions, no log; heads are limited to 8 KiB and barely checked.
 *
 * --listen-mode reuseport (default): each thread accepts from its own SO_REUSEPORT listener.
 * --listen-mode acceptor: one thread accepts and deals connections to the threads in turn.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS = 256,             /* taken from epoll at a time */
    HEAD_MAX = 8 * 1024,      /* bytes of a request head */
    IN_SIZE = 256 * 1024,     /* bytes received at a time: fits the second-level cache */
    SMALL_MAX = 4 * 1024,     /* files up to this size are read and sent with their header: measured against sendfile */
    CORK_MIN = 256 * 1024,    /* files from this size on are sent corked: full segments only */
    GATHER = 32 * 1024,       /* answers gathered before a send */
    SEND_STEP = 1024 * 1024,  /* bytes for one sendfile */
    TURN = 16,                /* steps (recv or sendfile) of one connection before the others get theirs */
    KEY_MAX = 255,
    OUT_SIZE = GATHER + SMALL_MAX + 1024, /* room for one more answer behind the gathered ones */
};

#define TEMPORARY ".c-server-"

static struct {
    int threads;
    const char *dir;
    uint16_t port;
    bool discard;
    bool acceptor;
} options = {.threads = 1, .dir = "/tmp/data-c", .port = 8080};

static int dir_fd, null_fd;

/* One connection: waiting for a request, in the body of one (body_left), or sending (unsent, send_left). */
struct connection {
    int socket;
    int file;           /* being sent, or written by a PUT; -1: none */
    int status;         /* the answer once the body is in */
    uint32_t number;    /* of the temporary file */
    bool drained;       /* the socket has nothing to read until epoll says otherwise */
    bool half_closed;   /* the peer's FIN is on its way: read until it shows */
    bool close_asked;   /* the current request is the last */
    bool closing;       /* close once everything is sent */
    int corked;         /* sends full segments only */
    bool queued;        /* has work left and waits for its next turn */
    uint64_t body_left; /* to receive */
    uint64_t send_left; /* of the file, to send */
    off_t offset;
    char *unsent;       /* answer bytes that the socket did not take; NULL: none */
    size_t unsent_at, unsent_len;
    char *stash;        /* received bytes that could not be handled yet; NULL: none */
    size_t stash_len;
    struct connection *next; /* in the queue */
    char key[KEY_MAX + 1];   /* of the upload */
};

/* One thread. Input and output belong to one connection only during its turn. */
struct worker {
    int index;
    int epoll;
    int listener; /* -1: connections come from the acceptor */
    uint32_t temporaries;
    time_t second;
    char date[40];
    struct connection *queue_first, *queue_last;
    size_t in_len, out_len;
    char in[IN_SIZE];
    char out[OUT_SIZE];
};

/* One request, as read from its head. */
struct request {
    enum { GET, HEAD, PUT, DELETE, OTHER } method;
    bool has_length, chunked, expects, close, http_1_0;
    uint64_t length;
    bool key_valid;
    char key[KEY_MAX + 1];
};

_Noreturn static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static const char *reason(int status)
{
    switch (status) {
    case 200: return "200 OK";
    case 204: return "204 No Content";
    case 304: return "304 Not Modified";
    case 400: return "400 Bad Request";
    case 404: return "404 Not Found";
    case 431: return "431 Request Header Fields Too Large";
    case 507: return "507 Insufficient Storage";
    default: return "500 Internal Server Error";
    }
}

static void refresh_date(struct worker *w)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec == w->second)
        return;
    w->second = now.tv_sec;
    struct tm parts;
    gmtime_r(&now.tv_sec, &parts);
    strftime(w->date, sizeof w->date, "%a, %d %b %Y %H:%M:%S GMT", &parts);
}

static char *put_text(char *at, const char *text)
{
    return stpcpy(at, text);
}

static char *put_number(char *at, uint64_t number)
{
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + number % 10);
    while (number /= 10);
    while (n)
        *at++ = digits[--n];
    return at;
}

/* Append the head of an answer to the worker's output. */
static void answer_head(struct worker *w, struct connection *c, int status, uint64_t length)
{
    char *at = w->out + w->out_len;
    at = put_text(at, "HTTP/1.1 ");
    at = put_text(at, reason(status));
    at = put_text(at, "\r\nServer: c-server\r\nDate: ");
    at = put_text(at, w->date);
    if (status == 200 && length)
        at = put_text(at, "\r\nContent-Type: application/octet-stream");
    if (status != 204 && status != 304) {
        at = put_text(at, "\r\nContent-Length: ");
        at = put_number(at, length);
    }
    if (c->close_asked) {
        at = put_text(at, "\r\nConnection: close");
        c->closing = true;
    }
    at = put_text(at, "\r\n\r\n");
    w->out_len = (size_t)(at - w->out);
}

/* ---- output ----------------------------------------------------------------------------------------------------- */

enum progress { MOVED, BLOCKED, BROKEN }; /* something was done; wait for an event; close */

static void *copy_of(const void *bytes, size_t len)
{
    void *copy = malloc(len);
    if (!copy)
        die("malloc");
    return memcpy(copy, bytes, len);
}

/* Send the gathered output. What the socket does not take is kept for later. */
static enum progress flush(struct worker *w, struct connection *c)
{
    ssize_t sent = send(c->socket, w->out, w->out_len, c->send_left ? MSG_MORE : 0);
    if (sent < 0 && errno != EAGAIN)
        return BROKEN;
    size_t taken = sent < 0 ? 0 : (size_t)sent, left = w->out_len - taken;
    w->out_len = 0;
    if (!left)
        return MOVED;
    c->unsent = copy_of(w->out + taken, left);
    c->unsent_at = 0;
    c->unsent_len = left;
    return BLOCKED;
}

static enum progress send_unsent(struct connection *c)
{
    ssize_t sent = send(c->socket, c->unsent + c->unsent_at, c->unsent_len - c->unsent_at, c->send_left ? MSG_MORE : 0);
    if (sent < 0)
        return errno == EAGAIN ? BLOCKED : BROKEN;
    c->unsent_at += (size_t)sent;
    if (c->unsent_at == c->unsent_len) {
        free(c->unsent);
        c->unsent = NULL;
    }
    return MOVED;
}

/* MSG_MORE joins the head to the file; a cork also keeps sendfile from sending a short segment after every 64 KiB,
 * which is worth 15% at 1 MiB and two more system calls. */
static void cork(struct connection *c, int on)
{
    if (c->corked != on)
        setsockopt(c->socket, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
    c->corked = on;
}

/* A file cut short meanwhile breaks the connection. */
static enum progress send_file(struct connection *c)
{
    size_t step = c->send_left < SEND_STEP ? c->send_left : SEND_STEP;
    ssize_t sent = sendfile(c->socket, c->file, &c->offset, step);
    if (sent <= 0)
        return sent < 0 && errno == EAGAIN ? BLOCKED : BROKEN;
    c->send_left -= (uint64_t)sent;
    if (!c->send_left) {
        cork(c, 0);
        close(c->file);
        c->file = -1;
    }
    return MOVED;
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

static int hex(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit |= 0x20;
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* The key of a target: its one segment, percent-decoded. False when there is none or it is not a name of ours. */
static bool parse_key(const char *at, const char *end, char *key)
{
    size_t len = 0;
    if (at == end || *at++ != '/')
        return false;
    for (; at < end && *at != '?'; at++) {
        char byte = *at;
        if (byte == '%') {
            if (end - at < 3 || hex(at[1]) < 0 || hex(at[2]) < 0)
                return false;
            byte = (char)(hex(at[1]) << 4 | hex(at[2]));
            at += 2;
        }
        if (byte == '/' || byte == 0 || len == KEY_MAX)
            return false;
        key[len++] = byte;
    }
    key[len] = 0;
    return len && strcmp(key, ".") && strcmp(key, "..") && strncmp(key, TEMPORARY, strlen(TEMPORARY));
}

static bool is(const char *at, size_t len, const char *word)
{
    return len == strlen(word) && !strncasecmp(at, word, len);
}

static bool parse_length(struct request *r, const char *at, const char *end)
{
    r->has_length = true;
    for (r->length = 0; at < end; at++) {
        if (*at < '0' || *at > '9' || r->length > UINT64_MAX / 16)
            return false;
        r->length = r->length * 10 + (uint64_t)(*at - '0');
    }
    return true;
}

/* Take the headers that matter. False: malformed. */
static bool parse_header(struct request *r, const char *line, const char *end)
{
    const char *colon = memchr(line, ':', (size_t)(end - line));
    if (!colon)
        return false;
    size_t name = (size_t)(colon - line);
    const char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    size_t len = (size_t)(end - value);
    if (is(line, name, "content-length"))
        return parse_length(r, value, end);
    if (is(line, name, "transfer-encoding"))
        r->chunked = true;
    else if (is(line, name, "expect"))
        r->expects = is(value, len, "100-continue");
    else if (is(line, name, "connection"))
        r->close = is(value, len, "close");
    return true;
}

static bool parse_request_line(struct request *r, const char *line, const char *end)
{
    const char *space = memchr(line, ' ', (size_t)(end - line));
    if (!space)
        return false;
    size_t len = (size_t)(space - line);
    r->method = len == 3 && !memcmp(line, "GET", 3)      ? GET
                : len == 3 && !memcmp(line, "PUT", 3)    ? PUT
                : len == 4 && !memcmp(line, "HEAD", 4)   ? HEAD
                : len == 6 && !memcmp(line, "DELETE", 6) ? DELETE
                                                         : OTHER;
    const char *target = space + 1;
    const char *version = memchr(target, ' ', (size_t)(end - target));
    if (!version || end - version != 9 || memcmp(version, " HTTP/1.", 8))
        return false;
    r->http_1_0 = version[8] == '0';
    r->key_valid = parse_key(target, version, r->key);
    return true;
}

/* Parse a complete head, `end` behind its empty line. False: malformed. */
static bool parse_head(struct request *r, const char *at, const char *end)
{
    memset(r, 0, offsetof(struct request, key));
    bool first = true;
    for (;;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *line_end = newline > at && newline[-1] == '\r' ? newline - 1 : newline;
        if (line_end == at)
            return !first;
        if (first ? !parse_request_line(r, at, line_end) : !parse_header(r, at, line_end))
            return false;
        first = false;
        at = newline + 1;
    }
}

/* ---- operations ------------------------------------------------------------------------------------------------- */

/* Read a whole small file behind the head already in the output. False: it was cut short meanwhile. */
static bool append_file(struct worker *w, int file, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = read(file, w->out + w->out_len, size - done);
        if (got <= 0)
            return false;
        done += (size_t)got;
        w->out_len += (size_t)got;
    }
    return true;
}

static int open_value(const struct request *r, struct stat *meta)
{
    int file = openat(dir_fd, r->key, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0 || (fstat(file, meta) == 0 && S_ISREG(meta->st_mode)))
        return file;
    close(file);
    errno = ENOENT;
    return -1;
}

static void get(struct worker *w, struct connection *c, const struct request *r)
{
    struct stat meta;
    int file = r->key_valid ? open_value(r, &meta) : -1;
    if (file < 0) {
        bool missing = !r->key_valid || errno == ENOENT || errno == ELOOP;
        answer_head(w, c, missing ? 404 : 500, 0);
        return;
    }
    uint64_t size = (uint64_t)meta.st_size;
    answer_head(w, c, 200, size);
    if (r->method == GET && size > SMALL_MAX) {
        c->file = file;
        c->offset = 0;
        c->send_left = size;
        cork(c, size >= CORK_MIN);
        return;
    }
    if (r->method == GET && !append_file(w, file, size))
        c->closing = true;
    close(file);
}

static void temporary_name(const struct worker *w, uint32_t number, char *name)
{
    char *at = put_text(name, TEMPORARY);
    at = put_number(at, (uint64_t)w->index);
    *at++ = '-';
    *put_number(at, number) = 0;
}

static void open_upload(struct worker *w, struct connection *c, const struct request *r)
{
    c->status = 200;
    if (options.discard) {
        c->file = null_fd;
        return;
    }
    char name[64];
    c->number = w->temporaries++;
    temporary_name(w, c->number, name);
    c->file = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (c->file < 0)
        c->status = 500;
    memcpy(c->key, r->key, sizeof c->key);
}

/* The upload failed or its connection did: nothing stays behind. */
static void drop_upload(struct worker *w, struct connection *c)
{
    if (c->file >= 0 && c->file != null_fd) {
        char name[64];
        temporary_name(w, c->number, name);
        close(c->file);
        unlinkat(dir_fd, name, 0);
    }
    c->file = -1;
}

static void write_upload(struct worker *w, struct connection *c, const char *at, size_t len)
{
    while (len && c->file >= 0) {
        ssize_t written = write(c->file, at, len);
        if (written < 0) {
            drop_upload(w, c);
            c->status = 507;
            return;
        }
        at += written;
        len -= (size_t)written;
    }
}

static void finish_upload(struct worker *w, struct connection *c)
{
    if (c->file < 0 || c->file == null_fd) {
        c->file = -1;
        return;
    }
    char name[64];
    temporary_name(w, c->number, name);
    bool closed = close(c->file) == 0;
    c->file = -1;
    if (closed && renameat(dir_fd, name, dir_fd, c->key) == 0)
        return;
    c->status = closed ? 500 : 507;
    unlinkat(dir_fd, name, 0);
}

static int delete(const struct request *r)
{
    if (!r->key_valid)
        return 404;
    if (unlinkat(dir_fd, r->key, 0) == 0)
        return 200;
    return errno == ENOENT || errno == EISDIR ? 404 : 500;
}

/* Begin a request whose head is complete; `arrived` tells whether anything came behind the head. */
static void start(struct worker *w, struct connection *c, const struct request *r, bool arrived)
{
    c->close_asked = r->close || r->http_1_0 || r->chunked;
    if ((r->method == GET || r->method == HEAD) && !r->length) {
        get(w, c, r);
        return;
    }
    c->status = 404;
    if (r->method == PUT && (!r->key_valid || !r->length))
        c->status = r->key_valid ? 304 : 204;
    else if (r->method == PUT)
        open_upload(w, c, r);
    else if (r->method == DELETE)
        c->status = delete(r);
    c->body_left = r->length;
    if (!c->body_left)
        answer_head(w, c, c->status, 0);
    else if (r->expects && !arrived)
        w->out_len = (size_t)(put_text(w->out + w->out_len, "HTTP/1.1 100 Continue\r\n\r\n") - w->out);
}

/* ---- connections ------------------------------------------------------------------------------------------------ */

static size_t take_body(struct worker *w, struct connection *c, const char *at, size_t len)
{
    size_t part = len < c->body_left ? len : c->body_left;
    write_upload(w, c, at, part);
    c->body_left -= part;
    if (!c->body_left) {
        finish_upload(w, c);
        answer_head(w, c, c->status, 0);
    }
    return part;
}

/* Returns the length of the head at `at`, 0 while it is incomplete. */
static size_t take_head(struct worker *w, struct connection *c, const char *at, size_t len)
{
    const char *end = memmem(at, len < HEAD_MAX ? len : HEAD_MAX, "\r\n\r\n", 4);
    if (!end && len < HEAD_MAX)
        return 0;
    struct request r;
    if (!end || !parse_head(&r, at, end + 4)) {
        c->close_asked = true;
        answer_head(w, c, end ? 400 : 431, 0);
        return len;
    }
    size_t head = (size_t)(end + 4 - at);
    start(w, c, &r, len > head);
    return head;
}

/* Handle what is in the input, as far as the answers can be sent along. Returns the bytes used. */
static size_t handle_input(struct worker *w, struct connection *c)
{
    size_t used = 0;
    while (used < w->in_len && !c->send_left && !c->closing && w->out_len < GATHER) {
        const char *at = w->in + used;
        size_t len = w->in_len - used;
        size_t part = c->body_left ? take_body(w, c, at, len) : take_head(w, c, at, len);
        if (!part)
            break;
        used += part;
    }
    w->in_len -= used;
    if (used && w->in_len)
        memmove(w->in, w->in + used, w->in_len);
    return used;
}

/* A recv that leaves room in the buffer has emptied the socket: the next byte will be an event. */
static enum progress receive(struct worker *w, struct connection *c)
{
    if (c->drained)
        return BLOCKED;
    size_t space = IN_SIZE - w->in_len;
    ssize_t got = recv(c->socket, w->in + w->in_len, space, 0);
    if (got <= 0)
        return got < 0 && errno == EAGAIN ? BLOCKED : BROKEN;
    w->in_len += (size_t)got;
    c->drained = (size_t)got < space && !c->half_closed;
    return MOVED;
}

/* Whatever is next for the connection: nothing is read while something is to be sent. */
static enum progress step(struct worker *w, struct connection *c)
{
    if (c->unsent)
        return send_unsent(c);
    if (c->send_left)
        return send_file(c);
    if (c->closing)
        return BROKEN;
    if (w->in_len && handle_input(w, c))
        return w->out_len ? flush(w, c) : MOVED;
    return receive(w, c);
}

static void load_stash(struct worker *w, struct connection *c)
{
    w->in_len = c->stash_len;
    if (!c->stash)
        return;
    memcpy(w->in, c->stash, c->stash_len);
    free(c->stash);
    c->stash = NULL;
    c->stash_len = 0;
}

static void save_stash(struct worker *w, struct connection *c)
{
    if (!w->in_len)
        return;
    c->stash = copy_of(w->in, w->in_len);
    c->stash_len = w->in_len;
}

static void queue(struct worker *w, struct connection *c)
{
    c->queued = true;
    c->next = NULL;
    *(w->queue_first ? &w->queue_last->next : &w->queue_first) = c;
    w->queue_last = c;
}

static void close_connection(struct worker *w, struct connection *c)
{
    if (c->body_left)
        drop_upload(w, c);
    else if (c->file >= 0)
        close(c->file);
    close(c->socket);
    free(c->unsent);
    free(c->stash);
    free(c);
}

/* One turn of a connection. False: it is gone. */
static bool take_turn(struct worker *w, struct connection *c)
{
    enum progress progress = MOVED;
    load_stash(w, c);
    for (int steps = 0; steps < TURN && progress == MOVED; steps++)
        progress = step(w, c);
    if (progress == BROKEN) {
        close_connection(w, c);
        return false;
    }
    save_stash(w, c);
    if (progress == MOVED)
        queue(w, c);
    return true;
}

static struct connection *new_connection(int socket)
{
    struct connection *c = calloc(1, sizeof *c);
    if (!c)
        die("calloc");
    c->socket = socket;
    c->file = -1;
    return c;
}

static void watch(int epoll, struct connection *c)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->socket, &event) < 0)
        die("epoll_ctl");
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

/* A new connection's request is there already: serve it before epoll hears of the connection. */
static void accept_one(struct worker *w)
{
    int socket = accept4(w->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0)
        return;
    struct connection *c = new_connection(socket);
    if (take_turn(w, c))
        watch(w->epoll, c);
}

static void on_event(struct worker *w, struct connection *c, uint32_t events)
{
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        c->drained = false;
    if (events & EPOLLRDHUP)
        c->half_closed = true;
    if (!c->queued)
        take_turn(w, c);
}

/* A turn for each connection that was queued before this call. */
static void run_queue(struct worker *w)
{
    struct connection *c = w->queue_first;
    w->queue_first = NULL;
    while (c) {
        struct connection *next = c->next;
        c->queued = false;
        take_turn(w, c);
        c = next;
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct epoll_event events[EVENTS];
    for (;;) {
        int n = epoll_wait(w->epoll, events, EVENTS, w->queue_first ? 0 : -1);
        if (n < 0 && errno != EINTR)
            die("epoll_wait");
        refresh_date(w);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr)
                on_event(w, events[i].data.ptr, events[i].events);
            else
                accept_one(w);
        }
        run_queue(w);
    }
    return NULL;
}

/* The options of the listener are inherited by what it accepts. */
static int listen_on(uint16_t *port, bool blocking)
{
    int on = 1, seconds = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (blocking ? 0 : SOCK_NONBLOCK), 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(*port)};
    socklen_t len = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        (!blocking && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0) ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds) < 0 ||
        bind(fd, (struct sockaddr *)&address, len) < 0 || listen(fd, 4096) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        die("listen");
    *port = ntohs(address.sin_port);
    return fd;
}

static struct worker *new_worker(int index)
{
    struct worker *w = calloc(1, sizeof *w);
    if (!w)
        die("calloc");
    w->index = index;
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->listener = -1;
    if (w->epoll < 0)
        die("epoll_create1");
    if (!options.acceptor) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
        w->listener = listen_on(&options.port, false);
        if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->listener, &event) < 0)
            die("epoll_ctl");
    }
    return w;
}

/* Deal connections to the workers in turn, for ever. */
_Noreturn static void accept_all(int listener, struct worker **workers)
{
    for (unsigned turn = 0;; turn++) {
        int socket = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (socket >= 0)
            watch(workers[turn % (unsigned)options.threads]->epoll, new_connection(socket));
        else if (errno == EMFILE || errno == ENFILE)
            usleep(10000);
    }
}

/* Threads for the workers from `first` on. Without an acceptor the main thread is a worker too: a process of one
 * thread is spared the kernel's and the C library's care for others. */
static void start_threads(struct worker **workers, int first)
{
    for (int i = first; i < options.threads; i++) {
        pthread_t thread;
        if ((errno = pthread_create(&thread, NULL, work, workers[i])))
            die("pthread_create");
    }
}

_Noreturn static void usage(void)
{
    fputs("usage: c-server [--threads N] [--dir DIR] [--port P] [--discard] [--listen-mode reuseport|acceptor]\n", stderr);
    exit(2);
}

static void parse_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"threads", required_argument, NULL, 't'}, {"dir", required_argument, NULL, 'd'},
        {"port", required_argument, NULL, 'p'},    {"discard", no_argument, NULL, 'x'},
        {"listen-mode", required_argument, NULL, 'l'}, {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 't': options.threads = atoi(optarg); break;
        case 'd': options.dir = optarg; break;
        case 'p': options.port = (uint16_t)atoi(optarg); break;
        case 'x': options.discard = true; break;
        case 'l':
            options.acceptor = !strcmp(optarg, "acceptor");
            if (options.acceptor || !strcmp(optarg, "reuseport"))
                break;
            usage();
        default: usage();
        }
    }
    if (optind != argc || options.threads < 1 || options.threads > 1024)
        usage();
}

int main(int argc, char **argv)
{
    parse_options(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    if (mkdir(options.dir, 0755) < 0 && errno != EEXIST)
        die(options.dir);
    dir_fd = open(options.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (dir_fd < 0 || null_fd < 0)
        die(options.dir);
    int listener = options.acceptor ? listen_on(&options.port, true) : -1;
    struct worker **workers = calloc((size_t)options.threads, sizeof *workers);
    if (!workers)
        die("calloc");
    for (int i = 0; i < options.threads; i++)
        workers[i] = new_worker(i);
    printf("listening on http://127.0.0.1:%u\n", options.port);
    fflush(stdout);
    start_threads(workers, options.acceptor ? 0 : 1);
    if (options.acceptor)
        accept_all(listener, workers);
    work(workers[0]);
}

/* body.c: the body of a quarter of a car as a solver, from the page of the wire protocol alone.
 *
 * Without any library: it reads and writes the few formats of MessagePack that the protocol needs,
 * and takes the way for processes of one Linux machine (a Unix socket in place of ZeroMQ).
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static const double MASS = 400.0; /* kg */
static const int STEPS = 10;      /* own steps per macro step */

/* ---- writing MessagePack ---- */

static uint8_t out[4096];
static size_t length;

static void put(const void *bytes, size_t n) { memcpy(out + length, bytes, n), length += n; }
static void byte(int value) { out[length++] = (uint8_t)value; }
static void big_endian(uint64_t bits) { for (int i = 56; i >= 0; i -= 8) byte((int)(bits >> i)); }
static void map(int n) { byte(0x80 | n); }
static void list(int n) { byte(0x90 | n); }
static void string(const char *text) { byte(0xd9), byte((int)strlen(text)), put(text, strlen(text)); }
static void integer(int64_t value) { byte(0xd3), big_endian((uint64_t)value); }
static void number(double value) { uint64_t raw; memcpy(&raw, &value, 8), byte(0xcb), big_endian(raw); }
static void array(const double *values, int n) { byte(0xc4), byte(8 * n), put(values, 8 * (size_t)n); }

static void message(int fields, const char *type) /* begins a message with that many more fields */
{
    length = 0;
    map(fields + 1), string("type"), string(type);
}

static void port(const char *name, const char *unit)
{
    map(2), string("name"), string(name), string("unit"), string(unit);
}

/* ---- reading it ---- */

typedef struct {
    int64_t i;           /* an integer */
    double d;            /* an integer or a float */
    const uint8_t *data; /* a string, or the bytes of an array */
    size_t n;
} Value;

static const uint8_t *at, *end;

static uint64_t bits(int n)
{
    uint64_t value = 0;
    while (n-- > 0 && at < end) value = value << 8 | *at++;
    return value;
}

static Value take(void)
{
    Value v = {0, 0.0, at, 0};
    int c = at < end ? *at++ : 0xc0;
    uint64_t elements = 0, raw;
    if (c < 0x80) v.i = c;
    else if (c >= 0xe0) v.i = c - 256;
    else if (c < 0x90) elements = 2 * (uint64_t)(c & 15);
    else if (c < 0xa0) elements = c & 15;
    else if (c < 0xc0) v.n = c & 31;
    else if (c == 0xc3) v.i = 1;
    else if (c >= 0xc4 && c <= 0xc6) v.n = bits(1 << (c - 0xc4));
    else if (c == 0xca) { uint32_t f = (uint32_t)bits(4); float x; memcpy(&x, &f, 4), v.d = x; return v; }
    else if (c == 0xcb) { raw = bits(8), memcpy(&v.d, &raw, 8); return v; }
    else if (c >= 0xcc && c <= 0xcf) v.i = (int64_t)bits(1 << (c - 0xcc));
    else if (c >= 0xd0 && c <= 0xd3) { int n = 1 << (c - 0xd0); v.i = (int64_t)(bits(n) << (64 - 8 * n)) >> (64 - 8 * n); }
    else if (c >= 0xd9 && c <= 0xdb) v.n = bits(1 << (c - 0xd9));
    else if (c == 0xdc || c == 0xdd) elements = bits(c == 0xdc ? 2 : 4);
    else if (c == 0xde || c == 0xdf) elements = 2 * bits(c == 0xde ? 2 : 4);
    v.d = (double)v.i;
    v.data = at;
    if (v.n > (size_t)(end - at)) v.n = (size_t)(end - at);
    at += v.n;
    while (elements-- > 0 && at < end) take(); /* nothing that a solver needs is nested */
    return v;
}

static Value field(const uint8_t *buffer, size_t size, const char *name)
{
    Value none = {0, 0.0, NULL, 0};
    at = buffer, end = buffer + size;
    int c = size > 0 ? *at++ : 0;
    uint64_t n = (c & 0xf0) == 0x80 ? (uint64_t)(c & 15) : c == 0xde ? bits(2) : 0;
    while (n-- > 0 && at < end) {
        Value key = take(), value = take();
        if (key.n == strlen(name) && memcmp(key.data, name, key.n) == 0) return value;
    }
    return none;
}

static int is(Value text, const char *other)
{
    return text.data != NULL && text.n == strlen(other) && memcmp(text.data, other, text.n) == 0;
}

/* ---- the model ---- */

static double x, v; /* m, m/s */

static double input(Value coefficients, double since) /* u(t + since), in N */
{
    double u = 0.0, factor = 1.0;
    for (size_t j = 0; j < coefficients.n / 8; j++) {
        double c;
        memcpy(&c, coefficients.data + 8 * j, 8); /* the j-th derivative at t, little-endian */
        u += c * factor;
        factor *= since / (double)(j + 1);
    }
    return u;
}

static void step(double h, Value coefficients)
{
    double dt = h / STEPS;
    for (int i = 0; i < STEPS; i++) {
        v += dt * input(coefficients, i * dt) / MASS;
        x += dt * v;
    }
}

/* ---- the protocol ---- */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int open_socket(const char *endpoint)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred master;
    socklen_t size = sizeof master;
    int n = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "hilrt %s", endpoint);
    int s = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (connect(s, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n))
        || getsockopt(s, SOL_SOCKET, SO_PEERCRED, &master, &size)
        || (master.uid != getuid() && master.uid != 0)) { /* anyone may take such an address */
        perror(endpoint);
        exit(1);
    }
    return s;
}

int main(int argc, char **argv)
{
    const char *endpoint = "", *name = "body";
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--connect") == 0) endpoint = argv[i + 1];
        if (strcmp(argv[i], "--name") == 0) name = argv[i + 1];
    }
    int s = open_socket(endpoint), initialized = 0;
    struct timeval wait = {.tv_usec = 200000}; /* one heartbeat */
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);

    message(6, "hello");
    string("version"), integer(1);
    string("role"), string("solver");
    string("name"), string(name);
    string("inputs"), list(1), port("force", "N");
    string("outputs"), list(2), port("x", "m"), port("v", "m/s");
    string("capabilities"), list(1), string("linearise");
    send(s, out, length, 0);

    static uint8_t in[1 << 20];
    int64_t heard = now_ns(), patience = 30000000000LL;
    for (;;) {
        ssize_t got = recv(s, in, sizeof in, 0);
        if (got == 0) return 1; /* the master is gone */
        if (got < 0) {
            if (now_ns() - heard > patience) return 1;
            message(1, "heartbeat"), string("sent_ns"), integer(now_ns());
            send(s, out, length, 0);
            continue;
        }
        size_t n = (size_t)got;
        Value type = field(in, n, "type");
        heard = now_ns();
        length = 0;
        if (is(type, "welcome")) {
            patience = 5000000000LL;
        } else if (is(type, "initialize")) {
            message(1, "initialized"), string("y"), array((double[]){x, v}, 2);
            initialized = 1;
        } else if (is(type, "advance")) {
            int64_t tick = field(in, n, "tick").i;
            step(field(in, n, "h").d, field(in, n, "coefficients"));
            message(4, "advanced"), string("tick"), integer(tick);
            string("y"), array((double[]){x, v}, 2);
            string("received_ns"), integer(heard);
            string("compute_us"), number(1e-3 * (double)(now_ns() - heard));
        } else if (is(type, "linearise")) { /* x' = v, v' = force / MASS, for the estimated error */
            message(6, "linearised");
            string("A"), array((double[]){0.0, 1.0, 0.0, 0.0}, 4);
            string("B"), array((double[]){0.0, 1.0 / MASS}, 2);
            string("C"), array((double[]){1.0, 0.0, 0.0, 1.0}, 4);
            string("D"), array((double[]){0.0, 0.0}, 2);
            string("fineness"), array((double[]){1.0 - 1.0 / STEPS}, 1);
            string("inside"), integer(1); /* nothing switches inside a step */
        } else if (is(type, "probe")) {
            message(0, "probed"); /* it tells no Jacobians */
        } else if (is(type, "heartbeat") && field(in, n, "echo_ns").i == 0) {
            int64_t asked = field(in, n, "sent_ns").i;
            message(2, "heartbeat"), string("sent_ns"), integer(now_ns());
            string("echo_ns"), integer(asked);
        } else if (is(type, "stop")) {
            message(0, "stopped");
            send(s, out, length, 0);
            return initialized ? 0 : 1;
        } else if (is(type, "reject") || is(type, "error")) {
            Value why = field(in, n, is(type, "reject") ? "reason" : "text");
            fprintf(stderr, "%.*s\n", (int)why.n, why.data ? (const char *)why.data : "");
            return 1;
        }
        if (length > 0) send(s, out, length, 0);
    }
}

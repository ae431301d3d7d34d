/* An oscillator with a sampled controller as an FMU of FMI 3.0: array states, clocks, binaries.
 *
 *   x' = A x + (0, z) + d,   A = (0, 1; -4000, -0.5)
 *
 * x (2) are the states and d (2) an input, arrays both; Runge-Kutta of order 4 in micro steps of MICRO.
 * At the ticks of the periodic clock `sample` the control is z = r - 3 x1 - x2, and `held` = (z, x1);
 * r is an input of that clock. Where x1 has become positive, a step ends early with an event at which
 * the output clock `crossed` ticks, and `at_crossing` = (x1, x2) of then. At a tick of `reset`, which
 * another subsystem triggers, x becomes `x_reset`. `echo` is what was last set to `command`, reversed.
 * Whatever is called in the wrong mode is an error. The functions it lacks are appended as stubs when it
 * is built; nothing here calls or needs them.
 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MICRO 1e-4
#define MOST_BYTES 64

typedef unsigned int ref;
enum { OK, WARNING, DISCARD, ERROR };
enum { X = 1, DX, D, X0, R = 10, HELD, AT_CROSSING, X_RESET, SAMPLE = 40, CROSSED, RESET, COMMAND = 50, ECHO };

typedef struct {
    double x[2], d[2], r, z, held[2], at_crossing[2], x_reset[2];
    bool sample, crossed, reset; /* the clocks that tick now */
    uint8_t bytes[MOST_BYTES];
    size_t n_bytes;
} State;

typedef struct {
    State s;
    bool events, running, event_mode;
    uint8_t echo[MOST_BYTES];
} Fmu;

static void rate(const State *s, const double *x, double *dx) {
    dx[0] = x[1] + s->d[0];
    dx[1] = -4000 * x[0] - 0.5 * x[1] + s->z + s->d[1];
}
static void micro_step(State *s, double dt) {
    double k[4][2], y[2];
    rate(s, s->x, k[0]);
    for (int j = 1; j < 4; j++) {
        double part = j < 3 ? dt / 2 : dt;
        for (int i = 0; i < 2; i++) y[i] = s->x[i] + part * k[j - 1][i];
        rate(s, y, k[j]);
    }
    for (int i = 0; i < 2; i++) s->x[i] += dt / 6 * (k[0][i] + 2 * k[1][i] + 2 * k[2][i] + k[3][i]);
}
static void sample(State *s) {
    s->z = s->r - 3 * s->x[0] - s->x[1];
    s->held[0] = s->z, s->held[1] = s->x[0];
}
/* Whether what belongs to a clock may be read or set now: at its ticks, and in the initialization. */
static bool active(const Fmu *f, bool ticks) { return !f->running || (f->event_mode && ticks); }
/* Where the two elements of a variable are; NULL where it may not be reached now. */
static double *pair(Fmu *f, ref vr, bool set) {
    State *s = &f->s;
    switch (vr) {
    case X: return set && f->running ? NULL : s->x;
    case X0: return set && f->running ? NULL : s->x;
    case D: return s->d;
    case HELD: return !set && active(f, s->sample) ? s->held : NULL;
    case AT_CROSSING: return !set && active(f, s->crossed) ? s->at_crossing : NULL;
    case X_RESET: return active(f, s->reset) ? s->x_reset : NULL;
    }
    return NULL;
}

const char *fmi3GetVersion(void) { return "3.0"; }
void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *where, bool visible,
                                  bool logging, bool events, bool early, const ref *required,
                                  size_t n, void *env, void *log, void *inside) {
    Fmu *f = calloc(1, sizeof *f);
    f->events = events && early;
    f->s.x[0] = 1;
    memcpy(f->s.bytes, "start", f->s.n_bytes = 5);
    return f;
}
void fmi3FreeInstance(void *c) { free(c); }
int fmi3EnterInitializationMode(void *c, bool has_tol, double tol, double t0, bool has_end, double end) { return OK; }
int fmi3ExitInitializationMode(void *c) {
    Fmu *f = c;
    f->running = true, f->event_mode = f->events;
    return OK;
}
int fmi3Terminate(void *c) { return OK; }
int fmi3EnterEventMode(void *c) {
    Fmu *f = c;
    if (!f->events || f->event_mode) return ERROR;
    f->event_mode = true;
    return OK;
}
int fmi3EnterStepMode(void *c) {
    Fmu *f = c;
    if (!f->event_mode) return ERROR;
    f->event_mode = false;
    return OK;
}
int fmi3SetClock(void *c, const ref *vr, size_t n, const bool *x) {
    Fmu *f = c;
    for (size_t i = 0; i < n; i++) {
        if (!f->event_mode || (vr[i] != SAMPLE && vr[i] != RESET)) return ERROR;
        *(vr[i] == SAMPLE ? &f->s.sample : &f->s.reset) = x[i];
    }
    if (f->s.sample) sample(&f->s); /* clocked outputs are those of the tick */
    return OK;
}
int fmi3GetClock(void *c, const ref *vr, size_t n, bool *x) {
    Fmu *f = c;
    for (size_t i = 0; i < n; i++) {
        if (!f->event_mode || vr[i] != CROSSED) return ERROR;
        x[i] = f->s.crossed;
    }
    return OK;
}
int fmi3UpdateDiscreteStates(void *c, bool *again, bool *ends, bool *nominals, bool *values, bool *next, double *at) {
    Fmu *f = c;
    State *s = &f->s;
    if (!f->event_mode) return ERROR;
    if (s->sample) sample(s);
    if (s->reset) memcpy(s->x, s->x_reset, sizeof s->x);
    *values = s->reset;
    s->sample = s->crossed = s->reset = *again = *ends = *nominals = *next = false;
    return OK;
}
int fmi3GetFloat64(void *c, const ref *vr, size_t n, double *y, size_t ny) {
    Fmu *f = c;
    for (size_t i = 0; i < n; i++) {
        double dx[2], *from = vr[i] == DX ? dx : pair(f, vr[i], false);
        if (vr[i] == DX) rate(&f->s, f->s.x, dx);
        if (vr[i] == R) { *y++ = f->s.r, ny--; continue; }
        if (!from || ny < 2) return ERROR;
        memcpy(y, from, sizeof f->s.x);
        y += 2, ny -= 2;
    }
    return ny ? ERROR : OK;
}
int fmi3SetFloat64(void *c, const ref *vr, size_t n, const double *x, size_t nx) {
    Fmu *f = c;
    for (size_t i = 0; i < n; i++) {
        if (vr[i] == R) {
            if (!active(f, f->s.sample)) return ERROR;
            f->s.r = *x++, nx--;
            if (f->s.sample) sample(&f->s);
            continue;
        }
        double *to = pair(f, vr[i], true);
        if (!to || nx < 2) return ERROR;
        memcpy(to, x, sizeof f->s.x);
        x += 2, nx -= 2;
    }
    return nx ? ERROR : OK;
}
int fmi3SetBinary(void *c, const ref *vr, size_t n, const size_t *sizes, const uint8_t **x, size_t nx) {
    Fmu *f = c;
    if (n != 1 || vr[0] != COMMAND || sizes[0] > MOST_BYTES) return ERROR;
    memcpy(f->s.bytes, x[0], f->s.n_bytes = sizes[0]);
    return OK;
}
int fmi3GetBinary(void *c, const ref *vr, size_t n, size_t *sizes, const uint8_t **y, size_t ny) {
    Fmu *f = c;
    if (n != 1 || vr[0] != ECHO) return ERROR;
    for (size_t i = 0; i < f->s.n_bytes; i++) f->echo[i] = f->s.bytes[f->s.n_bytes - 1 - i];
    sizes[0] = f->s.n_bytes, y[0] = f->echo;
    return OK;
}
int fmi3DoStep(void *c, double t, double h, bool no_set, bool *event, bool *ends, bool *early, double *last) {
    Fmu *f = c;
    int n = (int)ceil(h / MICRO - 1e-9);
    *event = *ends = *early = false;
    *last = t + h;
    if (f->event_mode) return ERROR;
    for (int j = 1; j <= n; j++) {
        double before = f->s.x[0];
        micro_step(&f->s, h / n);
        if (!f->events || before > 0 || f->s.x[0] <= 0) continue;
        f->s.crossed = *event = true;
        memcpy(f->s.at_crossing, f->s.x, sizeof f->s.x);
        *early = j < n;
        *last = t + j * (h / n);
        return OK;
    }
    return OK;
}
int fmi3GetFMUState(void *c, void **state) {
    *state = malloc(sizeof(State));
    memcpy(*state, &((Fmu *)c)->s, sizeof(State));
    return OK;
}
int fmi3SetFMUState(void *c, void *state) { memcpy(&((Fmu *)c)->s, state, sizeof(State)); return OK; }
int fmi3FreeFMUState(void *c, void **state) { free(*state); *state = NULL; return OK; }

/* A mass between a wall and a coupling, as an FMU of FMI 2.0 (-DFMI=2) or 3.0 (-DFMI=3).
 *
 *   v' = (-k x - c v - force + F) / m - g,   force = kc (x - x2) + cc (v - v2)
 *
 * by symplectic Euler, the inputs read at the start of each micro step; with g > 0 it falls instead
 * (exactly, k = c = kc = cc = 0) and bounces at x = 0 with restitution e. Every call is recorded;
 * `fault` makes it misbehave. The functions it lacks are appended as stubs when it is built.
 */
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <unistd.h>

typedef unsigned int ref;
enum { OK, WARNING, DISCARD, ERROR, FATAL };
enum { X2 = 1, V2, F, FORCE, X, V, DX, DV, M = 10, K, C, KC, CC, MICRO, G, E, REALS };
enum { GEAR = 30, GEAR_OUT, FAULT, ON = 40, ON_OUT, MODE = 50, MODE_OUT, LABEL = 60 };
enum { ARRAY = 70, TWICE, SHORT, SHORT_OUT, SIZE = 80 };
enum { TIMING = 33, SAMPLE = 90, BOUNCED, SAMPLED, DEMAND, TRIGGER, CAUGHT, STRUCK };
enum { COUNTDOWN = 1, GROWING, SAME, BACKWARD, AT_ONCE }; /* what `timing` makes of SAMPLE */
enum { FINE, NAN_OUT, DISCARDS, FAILS, DIES, CRASHES, HANGS, WARNS, ENDS, HALF_WAY, CREEPS, HALVES, SIGNALS, EXITS };

#ifndef LATE
#define LATE 0.0 /* when `fault` begins, s; with ENDS, when the simulation ends */
#endif

static char trace[1 << 16];
static void note(const char *format, ...) {
#ifdef QUIET /* for measurements of time */
    return;
#endif
    size_t used = strlen(trace);
    va_list list;
    va_start(list, format);
    vsnprintf(trace + used, sizeof trace - used, format, list);
    va_end(list);
}
const char *recorded(void) { return trace; }
void forget(void) { trace[0] = 0; }

typedef struct {
    double r[REALS], du[4][4], array[8];
    float single;
    int gear, fault, on, mode, size, timing;
    double set_at, time, reached;
    bool impact, ticks, triggered; /* BOUNCED, SAMPLE and TRIGGER tick */
    double sampled, demand;        /* clocked by SAMPLE: the place then, and an input */
    double caught, struck;         /* clocked by TRIGGER: the place; by BOUNCED: the speed */
    bool pending, told;            /* SAMPLE is to tick, and that has been said */
    bool ended;
    int count;                     /* its ticks so far */
} State;

typedef struct {
    State s;
    bool events, early, running, event_mode;
    void *env;
    void (*log2)(void *, const char *, int, const char *, const char *, ...);
    void (*log3)(void *, int, const char *, const char *);
    void (*inside)(void *, double, bool, bool, bool, bool, bool *, double *);
} Fmu;

static double input(const State *s, int i, double t) {
    double dt = t - s->set_at;
    return s->r[i] + dt * (s->du[0][i] + dt / 2 * (s->du[1][i] + dt / 3 * s->du[2][i]));
}
static void evaluate(double *r, double x2, double v2, double f) {
    r[FORCE] = r[KC] * (r[X] - x2) + r[CC] * (r[V] - v2);
    r[DX] = r[V];
    r[DV] = (-r[K] * r[X] - r[C] * r[V] - r[FORCE] + f) / r[M] - r[G];
}
static double value(const State *s, ref vr) {
    double r[REALS];
    memcpy(r, s->r, sizeof r);
    evaluate(r, input(s, X2, s->time), input(s, V2, s->time), input(s, F, s->time));
#ifdef NOISY
    static int drawn;
    r[X] += ++drawn;
#endif
    if (s->fault == NAN_OUT && s->time > LATE && vr == V) return NAN;
    return vr < REALS ? r[vr] : 0;
}
static void start(Fmu *f) {
    memset(&f->s, 0, sizeof f->s);
    f->s.r[M] = 1, f->s.r[K] = 10, f->s.r[KC] = 100, f->s.r[MICRO] = 1e-3, f->s.r[E] = 1;
    f->s.size = 3;
}
static void say(Fmu *f, int status, const char *text) {
    if (f->log2) f->log2(f->env, "mass", status, "logStatus", "%s at t = %g s", text, f->s.time);
    if (f->log3) f->log3(f->env, status, "logStatus", text);
}

/* One step; -1 when it stopped at an impact that is to be handled in event mode, or at its end. */
static int run(Fmu *f, double t, double h, bool no_set) {
    State *s = &f->s;
    double *r = s->r;
#ifdef FREEZES /* after its first step that may be repeated */
    if (!no_set && s->time > 0) {
        s->time = s->reached = t + h;
        return OK;
    }
#endif
    s->ended = s->fault == ENDS && t + h >= LATE;
    if (s->ended) h = fmax(LATE - t, 0);
    int n = (int)ceil(h / r[MICRO] - 1e-9), i;
    n = n < 1 ? 1 : n;
    int fault = t >= LATE ? s->fault : FINE;
    switch (fault) {
    case DISCARDS: s->reached = t; say(f, DISCARD, "no solution"); return DISCARD;
    case FAILS: say(f, ERROR, "singular matrix"); return ERROR;
    case DIES: say(f, FATAL, "out of memory"); return FATAL;
    case CRASHES: *(volatile int *)0 = 1; break;
    case HANGS: for (;;) sleep(1);
    case EXITS: exit(0);
    case HALF_WAY: if (h > 0.6e-3) { s->reached = t; return DISCARD; }
    }
    if (fault == CREEPS || fault == SIGNALS) {
        s->reached = s->time = t + 1e-6 * h;
        if (fault == SIGNALS) return -1;
        say(f, DISCARD, "it is too stiff");
        return DISCARD;
    }
    if (fault == HALVES) h *= 0.5;
    double dt = h / n;
    for (i = 0; i < n; i++) {
        double now = t + i * dt;
        s->time = now;
        if (f->inside) {
            bool wants = false;
            double at = 0;
            s->set_at = now;
            f->inside(f->env, now, true, true, i > 0, false, &wants, &at);
        }
        double left = dt;
        while (r[G] > 0) {
            double hit = (r[V] + sqrt(r[V] * r[V] + 2 * r[G] * fmax(r[X], 0))) / r[G];
            if (hit > left) break;
            r[X] = 0, r[V] -= r[G] * hit, left -= hit;
            s->time = s->reached = now + dt - left;
            if (f->events) { s->impact = true; return -1; }
            r[V] *= -r[E];
        }
        if (r[G] > 0) {
            r[X] += left * (r[V] - r[G] * left / 2), r[V] -= r[G] * left;
        } else {
            evaluate(r, input(s, X2, now), input(s, V2, now), input(s, F, now));
            r[V] += dt * r[DV];
            r[X] += dt * r[V];
        }
        s->time = now + dt;
    }
    s->time = s->reached = t + h;
    if (f->inside) {
        bool wants = false;
        double at = 0;
        s->set_at = s->time;
        f->inside(f->env, s->time, true, true, true, false, &wants, &at);
    }
    if (s->ended) return -1;
    if (fault == HALVES) return DISCARD;
    if (fault == WARNS) { say(f, WARNING, "step size is small"); return WARNING; }
    return OK;
}
static int directional(Fmu *f, const ref *un, size_t nu, const ref *kn, size_t nk, const double *dk,
                       double *du) {
    double r[REALS];
    memcpy(r, f->s.r, sizeof r);
    r[X] = r[V] = r[G] = r[X2] = r[V2] = r[F] = 0;
    for (size_t i = 0; i < nk; i++) r[kn[i]] = dk[i];
    evaluate(r, r[X2], r[V2], r[F]);
    for (size_t i = 0; i < nu; i++) du[i] = r[un[i]];
#ifdef MOVES /* by differences, of which it keeps the last */
    for (size_t i = 0; i < nk; i++) f->s.r[kn[i]] += 1e-3;
#endif
    return OK;
}
static int rates(Fmu *f, const ref *vr, size_t n, const int *order, double *y) {
    State *s = &f->s;
    double a = value(s, DV), v = s->r[V];
    for (size_t i = 0; i < n; i++) {
        double dforce = s->r[KC] * (v - s->du[0][X2] - (s->time - s->set_at) * s->du[1][X2])
                        + s->r[CC] * (a - s->du[0][V2]);
        if (vr[i] == TWICE) { /* an array, told as if its inputs grew by 1 and more per second */
            for (int j = 0; j < s->size; j++) *y++ = 2 * (j + 1);
            continue;
        }
        *y++ = order[i] > 1 ? 0 : vr[i] == FORCE ? dforce : vr[i] == X ? v : a;
    }
    return OK;
}
static int set_reals(Fmu *f, const ref *vr, size_t n, const double *x) {
    note(" set");
    for (size_t i = 0; i < n; i++) {
        if (vr[i] >= REALS) return ERROR;
#ifdef IGNORES
        if (vr[i] <= F) continue;
#endif
        f->s.r[vr[i]] = x[i];
    }
    f->s.set_at = f->s.time;
    return OK;
}
static int *whole(Fmu *f, ref vr) {
    switch (vr) {
    case GEAR: case GEAR_OUT: return &f->s.gear;
    case FAULT: return &f->s.fault;
    case TIMING: return &f->s.timing;
    case ON: case ON_OUT: return &f->s.on;
    default: return &f->s.mode;
    }
}
#define EACH for (size_t i = 0; i < n; i++)

#if FMI == 2
typedef struct {
    void (*log)(void *, const char *, int, const char *, const char *, ...);
    void *allocate, *release, *finished, *env;
} Callbacks;

const char *fmi2GetVersion(void) { return "2.0"; }
const char *fmi2GetTypesPlatform(void) { return "default"; }
void *fmi2Instantiate(const char *name, int kind, const char *guid, const char *where,
                      const Callbacks *calls, int visible, int logging) {
#ifdef CRASH
    abort();
#endif
#ifdef HANG
    for (;;) sleep(1);
#endif
    Fmu *f = calloc(1, sizeof *f);
    note(" instantiate");
    start(f);
    f->log2 = calls->log, f->env = calls->env;
    if (strcmp(guid, "mass")) { say(f, ERROR, "the GUID is another one"); free(f); return NULL; }
    return f;
}
void fmi2FreeInstance(void *c) { note(" free"); free(c); }
int fmi2SetupExperiment(void *c, int has_tol, double tol, double t0, int has_end, double end) {
    note(" setup(%g,%g,%g)", has_tol ? tol : -1, t0, has_end ? end : -1);
    ((Fmu *)c)->s.time = t0;
    return OK;
}
int fmi2EnterInitializationMode(void *c) { note(" enter"); return OK; }
int fmi2ExitInitializationMode(void *c) { note(" exit"); return OK; }
int fmi2Terminate(void *c) { note(" terminate"); return OK; }
int fmi2GetReal(void *c, const ref *vr, size_t n, double *y) {
    note(" get");
    EACH y[i] = value(&((Fmu *)c)->s, vr[i]);
    return OK;
}
int fmi2SetReal(void *c, const ref *vr, size_t n, const double *x) { return set_reals(c, vr, n, x); }
int fmi2GetInteger(void *c, const ref *vr, size_t n, int *y) { EACH y[i] = *whole(c, vr[i]); return OK; }
int fmi2SetInteger(void *c, const ref *vr, size_t n, const int *x) { EACH *whole(c, vr[i]) = x[i]; return OK; }
int fmi2GetBoolean(void *c, const ref *vr, size_t n, int *y) { return fmi2GetInteger(c, vr, n, y); }
int fmi2SetBoolean(void *c, const ref *vr, size_t n, const int *x) { return fmi2SetInteger(c, vr, n, x); }
int fmi2SetString(void *c, const ref *vr, size_t n, const char **x) { note(" label(%s)", x[0]); return OK; }
int fmi2SetRealInputDerivatives(void *c, const ref *vr, size_t n, const int *order, const double *x) {
    note(" derivatives");
    EACH ((Fmu *)c)->s.du[order[i] - 1][vr[i]] = x[i];
    return OK;
}
int fmi2GetRealOutputDerivatives(void *c, const ref *vr, size_t n, const int *order, double *y) {
    return rates(c, vr, n, order, y);
}
int fmi2GetDirectionalDerivative(void *c, const ref *un, size_t nu, const ref *kn, size_t nk,
                                 const double *dk, double *du) {
    return directional(c, un, nu, kn, nk, dk, du);
}
int fmi2DoStep(void *c, double t, double h, int no_set) {
    note(" step(%.6g,%.6g,%d)", t, h, no_set);
    int status = run(c, t, h, no_set);
    return status == -1 ? DISCARD : status;
}
int fmi2GetRealStatus(void *c, int kind, double *y) { *y = ((Fmu *)c)->s.reached; return OK; }
int fmi2GetBooleanStatus(void *c, int kind, int *y) { *y = ((Fmu *)c)->s.ended; return OK; }
int fmi2GetFMUstate(void *c, void **state) {
    note(" save");
    *state = malloc(sizeof(State));
    memcpy(*state, &((Fmu *)c)->s, sizeof(State));
    return OK;
}
int fmi2SetFMUstate(void *c, void *state) {
    note(" restore");
#ifndef FORGETS
    memcpy(&((Fmu *)c)->s, state, sizeof(State));
#endif
    return OK;
}
int fmi2FreeFMUstate(void *c, void **state) { note(" release"); free(*state); *state = NULL; return OK; }
#else
const char *fmi3GetVersion(void) { return "3.0"; }
void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *where, bool visible,
                                  bool logging, bool events, bool early, const ref *required,
                                  size_t n, void *env, void *log, void *inside) {
#ifdef CRASH
    abort();
#endif
#ifdef HANG
    for (;;) sleep(1);
#endif
    Fmu *f = calloc(1, sizeof *f);
    note(" instantiate(%d,%d,%zu)", events, early, n);
    start(f);
    f->log3 = log, f->env = env, f->events = events, f->inside = inside;
    if (strcmp(token, "mass")) { say(f, ERROR, "the token is another one"); free(f); return NULL; }
    return f;
}
void fmi3FreeInstance(void *c) { note(" free"); free(c); }
int fmi3EnterConfigurationMode(void *c) { note(" configure"); return OK; }
int fmi3ExitConfigurationMode(void *c) { note(" configured"); return OK; }
int fmi3EnterInitializationMode(void *c, bool has_tol, double tol, double t0, bool has_end, double end) {
    note(" enter(%g,%g,%g)", has_tol ? tol : -1, t0, has_end ? end : -1);
    ((Fmu *)c)->s.time = t0;
    return OK;
}
int fmi3ExitInitializationMode(void *c) {
    Fmu *f = c;
    note(" exit");
    f->running = true, f->event_mode = f->events;
    return OK;
}
int fmi3EnterEventMode(void *c) { note(" event"); ((Fmu *)c)->event_mode = true; return OK; }
int fmi3EnterStepMode(void *c) { note(" stepmode"); ((Fmu *)c)->event_mode = false; return OK; }
int fmi3Terminate(void *c) { note(" terminate"); return OK; }
int fmi3UpdateDiscreteStates(void *c, bool *again, bool *ends, bool *nominals, bool *values, bool *next, double *at) {
    State *s = &((Fmu *)c)->s;
    note(" update");
#ifdef NO_EVENTS
    return ERROR;
#endif
    if (!((Fmu *)c)->event_mode) return ERROR;
    *again = s->impact;
    if (s->ticks) s->count++, s->pending = s->told = false;
    if (s->impact) s->r[V] *= -s->r[E], s->pending = true, s->told = false;
    s->impact = s->ticks = s->triggered = *nominals = *values = *next = false;
    *ends = s->ended;
    return OK;
}
int fmi3SetClock(void *c, const ref *vr, size_t n, const bool *x) {
    State *s = &((Fmu *)c)->s;
    if (!((Fmu *)c)->event_mode) return ERROR;
    EACH { note(" clock(%d)", (int)vr[i]); *(vr[i] == TRIGGER ? &s->triggered : &s->ticks) = x[i]; }
    return OK;
}
int fmi3GetClock(void *c, const ref *vr, size_t n, bool *x) {
    EACH x[i] = ((Fmu *)c)->s.impact;
    return ((Fmu *)c)->event_mode ? OK : ERROR;
}
int fmi3GetIntervalDecimal(void *c, const ref *vr, size_t n, double *y, int *known) {
    Fmu *f = c;
    State *s = &f->s;
    note(" interval");
    if (f->running && !f->event_mode) return ERROR;
    *known = s->told ? 1 : 2;
    switch (s->timing) {
    case COUNTDOWN: *y = 0.1; if (!s->pending) *known = 0; break; /* after an impact */
    case GROWING: *y = 0.01 * (s->count + 1); break;
    case SAME: *y = s->count ? 0 : 0.02; if (s->count) *known = 1; break;
    case BACKWARD: *y = -1; break;
    case AT_ONCE: *y = 0; break;
    default: *y = 0.004;
    }
    s->told = *known > 0;
    return OK;
}
int fmi3GetShiftDecimal(void *c, const ref *vr, size_t n, double *y) { *y = 0.003; return OK; }
/* What belongs to a clock is there at its ticks, and in the initialization. */
static int clocked(Fmu *f, bool active, double now, double *kept, double *y) {
    if (f->running && !active) return ERROR;
    *y = *kept = active ? now : *kept;
    return OK;
}
int fmi3GetFloat64(void *c, const ref *vr, size_t n, double *y, size_t ny) {
    Fmu *f = c;
    State *s = &f->s;
    int status = OK;
    note(" get");
    EACH switch (vr[i]) {
    case SAMPLED: status |= clocked(f, s->ticks, s->r[X] + s->demand, &s->sampled, y++); break;
    case CAUGHT: status |= clocked(f, s->triggered, s->r[X], &s->caught, y++); break;
    case STRUCK: status |= clocked(f, s->impact, s->r[V], &s->struck, y++); break;
    case TWICE: for (int j = 0; j < s->size; j++) *y++ = 2 * s->array[j]; break;
    default: *y++ = value(s, vr[i]);
    }
    return status;
}
int fmi3SetFloat64(void *c, const ref *vr, size_t n, const double *x, size_t nx) {
    State *s = &((Fmu *)c)->s;
    EACH if (vr[i] == DEMAND) {
        if (((Fmu *)c)->running && !s->ticks) return ERROR; /* active at the ticks of its clock only */
        s->demand = *x++;
    } else if (vr[i] == ARRAY) { memcpy(s->array, x, s->size * sizeof *x); x += s->size; }
    else if (set_reals(c, vr + i, 1, x++)) return ERROR;
    return OK;
}
int fmi3GetFloat32(void *c, const ref *vr, size_t n, float *y, size_t ny) { EACH y[i] = ((Fmu *)c)->s.single; return OK; }
int fmi3SetFloat32(void *c, const ref *vr, size_t n, const float *x, size_t nx) { ((Fmu *)c)->s.single = x[0]; return OK; }
int fmi3SetUInt64(void *c, const ref *vr, size_t n, const uint64_t *x, size_t nx) {
    note(" size(%d)", (int)x[0]);
    ((Fmu *)c)->s.size = (int)x[0];
    return OK;
}
int fmi3GetInt32(void *c, const ref *vr, size_t n, int *y, size_t ny) { EACH y[i] = *whole(c, vr[i]); return OK; }
int fmi3SetInt32(void *c, const ref *vr, size_t n, const int *x, size_t nx) { EACH *whole(c, vr[i]) = x[i]; return OK; }
int fmi3GetInt64(void *c, const ref *vr, size_t n, int64_t *y, size_t ny) { EACH y[i] = *whole(c, vr[i]); return OK; }
int fmi3SetInt64(void *c, const ref *vr, size_t n, const int64_t *x, size_t nx) { EACH *whole(c, vr[i]) = (int)x[i]; return OK; }
int fmi3GetBoolean(void *c, const ref *vr, size_t n, bool *y, size_t ny) { EACH y[i] = *whole(c, vr[i]); return OK; }
int fmi3SetBoolean(void *c, const ref *vr, size_t n, const bool *x, size_t nx) { EACH *whole(c, vr[i]) = x[i]; return OK; }
int fmi3SetString(void *c, const ref *vr, size_t n, const char **x, size_t nx) { note(" label(%s)", x[0]); return OK; }
int fmi3GetOutputDerivatives(void *c, const ref *vr, size_t n, const int *order, double *y, size_t ny) {
    return rates(c, vr, n, order, y);
}
int fmi3GetDirectionalDerivative(void *c, const ref *un, size_t nu, const ref *kn, size_t nk,
                                 const double *dk, size_t ndk, double *du, size_t ndu) {
    return directional(c, un, nu, kn, nk, dk, du);
}
int fmi3DoStep(void *c, double t, double h, bool no_set, bool *event, bool *ends, bool *early, double *last) {
    Fmu *f = c;
    note(" step(%.6g,%.6g,%d)", t, h, no_set);
    *event = *early = false;
    int status = run(f, t, h, no_set);
    *last = f->s.reached;
    *ends = f->s.ended;
#ifdef ENDS_IN_EVENT
    *ends = false;
#endif
    if (status == -1) {
        *early = true, *event = !*ends;
#ifdef ENDS_AS_IF_IN_TIME
        *early = false;
#endif
        return OK;
    }
    return status;
}
int fmi3GetFMUState(void *c, void **state) {
    note(" save");
    *state = malloc(sizeof(State));
    memcpy(*state, &((Fmu *)c)->s, sizeof(State));
    return OK;
}
int fmi3SetFMUState(void *c, void *state) {
    note(" restore");
#ifndef FORGETS
    memcpy(&((Fmu *)c)->s, state, sizeof(State));
#endif
    return OK;
}
int fmi3FreeFMUState(void *c, void **state) { note(" release"); free(*state); *state = NULL; return OK; }
#endif

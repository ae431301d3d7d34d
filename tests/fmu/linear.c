/* A linear system as an FMU of FMI 3.0, with arrays throughout: x' = A x + B u, y = C x + D u.
 *
 * Structural parameters size x (n), u (m) and y (p); the matrices are parameters, rows one after the
 * other. Runge-Kutta of order 4 in STEPS micro steps; with intermediate update the inputs are those of
 * each stage, otherwise they are held. The functions it lacks are appended as stubs when it is built.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST 4
#define STEPS 100

typedef unsigned int ref;
enum { OK, WARNING, DISCARD, ERROR };
enum { N = 1, M, P, A = 10, B, C, D, U = 20, X, DX, Y };

typedef struct {
    int n, m, p;
    double a[MOST * MOST], b[MOST * MOST], c[MOST * MOST], d[MOST * MOST];
    double u[MOST], x[MOST];
} State;

typedef struct {
    State s;
    void *env;
    void (*inside)(void *, double, bool, bool, bool, bool, bool *, double *);
} Fmu;

/* y = F v + G w, with F of `rows` times `nv`, G of `rows` times `nw` */
static void product(const double *F, const double *v, int nv, const double *G, const double *w, int nw,
                    int rows, double *y) {
    for (int i = 0; i < rows; i++) {
        y[i] = 0;
        for (int j = 0; j < nv; j++) y[i] += F[i * nv + j] * v[j];
        for (int j = 0; j < nw; j++) y[i] += G[i * nw + j] * w[j];
    }
}
static void rate(const State *s, const double *x, const double *u, double *dx) {
    product(s->a, x, s->n, s->b, u, s->m, s->n, dx);
}
static void output(const State *s, const double *x, const double *u, double *y) {
    product(s->c, x, s->n, s->d, u, s->m, s->p, y);
}
/* Where a variable is kept, and how many elements it has. */
static double *place(State *s, ref vr, int *size) {
    switch (vr) {
    case A: *size = s->n * s->n; return s->a;
    case B: *size = s->n * s->m; return s->b;
    case C: *size = s->p * s->n; return s->c;
    case D: *size = s->p * s->m; return s->d;
    case U: *size = s->m; return s->u;
    case X: *size = s->n; return s->x;
    case DX: *size = s->n; return NULL;
    case Y: *size = s->p; return NULL;
    }
    *size = 0;
    return NULL;
}
/* Stage at x + step * k: its rate, with the inputs of the time t. */
static void stage(Fmu *f, double t, double step, const double *k, double *rates) {
    double x[MOST], at;
    bool wants = false;
    if (f->inside) f->inside(f->env, t, true, false, false, false, &wants, &at);
    for (int i = 0; i < f->s.n; i++) x[i] = f->s.x[i] + step * k[i];
    rate(&f->s, x, f->s.u, rates);
}

const char *fmi3GetVersion(void) { return "3.0"; }
void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *where, bool visible,
                                  bool logging, bool events, bool early, const ref *required,
                                  size_t n, void *env, void *log, void *inside) {
    Fmu *f = calloc(1, sizeof *f);
    f->env = env, f->inside = inside;
    f->s.n = 3, f->s.m = 2, f->s.p = 2;
    return f;
}
void fmi3FreeInstance(void *c) { free(c); }
int fmi3EnterConfigurationMode(void *c) { return OK; }
int fmi3ExitConfigurationMode(void *c) { return OK; }
int fmi3EnterInitializationMode(void *c, bool has_tol, double tol, double t0, bool has_end, double end) { return OK; }
int fmi3ExitInitializationMode(void *c) { return OK; }
int fmi3Terminate(void *c) { return OK; }
int fmi3SetUInt64(void *c, const ref *vr, size_t n, const uint64_t *x, size_t nx) {
    State *s = &((Fmu *)c)->s;
    for (size_t i = 0; i < n; i++) {
        if (x[i] > MOST) return ERROR;
        *(vr[i] == N ? &s->n : vr[i] == M ? &s->m : &s->p) = (int)x[i];
    }
    return OK;
}
int fmi3SetFloat64(void *c, const ref *vr, size_t n, const double *x, size_t nx) {
    for (size_t i = 0; i < n; i++) {
        int size;
        double *to = place(&((Fmu *)c)->s, vr[i], &size);
        if (!to) return ERROR;
        memcpy(to, x, size * sizeof *x);
        x += size, nx -= size;
    }
    return nx ? ERROR : OK;
}
int fmi3GetFloat64(void *c, const ref *vr, size_t n, double *y, size_t ny) {
    State *s = &((Fmu *)c)->s;
    for (size_t i = 0; i < n; i++) {
        int size;
        const double *from = place(s, vr[i], &size);
        if (vr[i] == Y) output(s, s->x, s->u, y);
        else if (vr[i] == DX) rate(s, s->x, s->u, y);
        else if (from) memcpy(y, from, size * sizeof *y);
        else return ERROR;
        y += size, ny -= size;
    }
    return ny ? ERROR : OK;
}
int fmi3GetDirectionalDerivative(void *c, const ref *un, size_t nu, const ref *kn, size_t nk,
                                 const double *dk, size_t ndk, double *du, size_t ndu) {
    State *s = &((Fmu *)c)->s;
    double dx[MOST] = {0}, din[MOST] = {0};
    int size;
    for (size_t i = 0; i < nk; i++, dk += size, ndk -= size) {
        place(s, kn[i], &size);
        if (kn[i] != X && kn[i] != U) return ERROR;
        memcpy(kn[i] == X ? dx : din, dk, size * sizeof *dk);
    }
    for (size_t i = 0; i < nu; i++, du += size, ndu -= size) {
        place(s, un[i], &size);
        if (un[i] == DX) rate(s, dx, din, du);
        else if (un[i] == Y) output(s, dx, din, du);
        else if (un[i] == X) memcpy(du, dx, size * sizeof *du);
        else return ERROR;
    }
    return ndk || ndu ? ERROR : OK;
}
int fmi3DoStep(void *c, double t, double h, bool no_set, bool *event, bool *ends, bool *early, double *last) {
    Fmu *f = c;
    double dt = h / STEPS, k[4][MOST], zero[MOST] = {0};
    for (int j = 0; j < STEPS; j++) {
        double now = t + j * dt;
        stage(f, now, 0, zero, k[0]);
        stage(f, now + dt / 2, dt / 2, k[0], k[1]);
        stage(f, now + dt / 2, dt / 2, k[1], k[2]);
        stage(f, now + dt, dt, k[2], k[3]);
        for (int i = 0; i < f->s.n; i++) f->s.x[i] += dt / 6 * (k[0][i] + 2 * k[1][i] + 2 * k[2][i] + k[3][i]);
    }
    *event = *ends = *early = false;
    *last = t + h;
    return OK;
}
int fmi3GetFMUState(void *c, void **state) {
    *state = malloc(sizeof(State));
    memcpy(*state, &((Fmu *)c)->s, sizeof(State));
    return OK;
}
int fmi3SetFMUState(void *c, void *state) { memcpy(&((Fmu *)c)->s, state, sizeof(State)); return OK; }
int fmi3FreeFMUState(void *c, void **state) { free(*state); *state = NULL; return OK; }

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Static tracepoints for C (C11) and C++ (C++17), with gcc and clang.
 *
 *     #include <sordino/tracepoint.h>
 *
 *     SORDINO_TRACEPOINT(motor, period, SORDINO_INFO,
 *         (u64, cycle),
 *         (f64, torque),
 *         (string, state))
 *
 *     void control_period(uint64_t cycle, double torque, const char *state)
 *     {
 *         sordino_tracepoint(motor, period, cycle, torque, state);
 *     }
 *
 * Build with `pkg-config --cflags --libs sordino`. A tracepoint is declared once per file that hits it, at file scope;
 * the same declaration in a header that several files include is one tracepoint. Its arguments are evaluated only if a
 * session has enabled it.
 *
 * Fields, each in parentheses:
 *
 *     (u8, name) ... (u64, name), (i8, name) ... (i64, name)   integers
 *     (u32x, name), (i16x, name) ...                           shown in hexadecimal
 *     (u16n, name), (u32n, name) ...                           recorded in network byte order; pass the host's value
 *     (f32, name), (f64, name), (boolean, name)
 *     (enumeration, labels, u8, name)                          labels: see SORDINO_LABELS
 *     (string, name)                                           const char *; NULL is recorded as "(null)"
 *     (array, u32, name, 4)                                    const uint32_t *: always 4 values
 *     (sequence, u32, name)                                    const uint32_t *; a second argument is their number
 *     (blob, name)                                             const void *; a second argument is the number of bytes
 *
 * A tracepoint has at most 48 fields, and a record at most SORDINO_MAX_PAYLOAD bytes of them (a larger one is lost, and
 * counted).
 *
 * Real-time: a hit of a tracepoint that no session has enabled is two loads and a branch. A hit that is recorded makes
 * no system call, takes no lock, allocates nothing, and is bounded by the record's length. It works in signal handlers,
 * before main, and in any thread. It stages the record on the stack, which matters if the stack is small. A recorder
 * may make a hit wait for room only in a program that was started with SORDINO_ALLOW_BLOCKING=1 in its environment.
 */
#ifndef SORDINO_TRACEPOINT_H
#define SORDINO_TRACEPOINT_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Log levels, as in LTTng. */
enum sordino_level {
    SORDINO_EMERGENCY = 0,
    SORDINO_ALERT = 1,
    SORDINO_CRITICAL = 2,
    SORDINO_ERROR = 3,
    SORDINO_WARNING = 4,
    SORDINO_NOTICE = 5,
    SORDINO_INFO = 6,
    SORDINO_DEBUG_SYSTEM = 7,
    SORDINO_DEBUG_PROGRAM = 8,
    SORDINO_DEBUG_PROCESS = 9,
    SORDINO_DEBUG_MODULE = 10,
    SORDINO_DEBUG_UNIT = 11,
    SORDINO_DEBUG_FUNCTION = 12,
    SORDINO_DEBUG_LINE = 13,
    SORDINO_DEBUG = 14
};

/* The length of a record's longest payload, in bytes. */
#define SORDINO_MAX_PAYLOAD 32704

/* The interface of libsordino (crates/recording/probe/src/point.rs). Not for direct use. */

/* The version of the shared memory's layout (docs/layout.md), of which this header compiles parts into the program. The
 * library's soname ends with it, and so does each name below in object files: code that was compiled for another layout
 * does not link, and is not loaded. */
#define SORDINO_LAYOUT_VERSION 9
#define SORDINO_OF_LAYOUT(name) name "_layout_" SORDINO_QUOTE(SORDINO_LAYOUT_VERSION)
#define SORDINO_QUOTE(token) SORDINO_QUOTE_AS_IT_IS(token)
#define SORDINO_QUOTE_AS_IT_IS(token) #token
#define SORDINO_NAMED(name) __asm__(SORDINO_OF_LAYOUT(name))

struct sordino_label {
    int64_t low, high;
    const char *text;
};

struct sordino_field {
    const char *name;
    const char *scalar;
    uint32_t container; /* 0: one value, 1: array, 2: sequence, 3: string */
    uint32_t length;
    const struct sordino_label *labels;
    size_t label_count;
};

struct sordino_description {
    const char *provider, *name, *file;
    uint32_t line, level;
    const struct sordino_field *fields;
    size_t field_count;
};

struct sordino_tracepoint {
    const uint64_t *enabled;
    uint64_t id;
    const struct sordino_description *description;
};

extern const uint64_t sordino_nobody SORDINO_NAMED("sordino_nobody");
extern struct sordino_tracepoint sordino_mark_point SORDINO_NAMED("sordino_mark_point");
extern struct sordino_tracepoint sordino_snapshot_point SORDINO_NAMED("sordino_snapshot_point");
void sordino_register(struct sordino_tracepoint *point) SORDINO_NAMED("sordino_register");
void sordino_ready(void) SORDINO_NAMED("sordino_ready");
void sordino_emit(const struct sordino_tracepoint *point, uint64_t enabled, const void *payload, uint64_t encoded_length)
    SORDINO_NAMED("sordino_emit");
void sordino_emit_pair(const struct sordino_tracepoint *point, uint64_t enabled, uint64_t first, uint64_t second)
    SORDINO_NAMED("sordino_emit_pair");
void sordino_emit_scalars(
    const struct sordino_tracepoint *point, uint64_t enabled, uint64_t layout, uint64_t first, uint64_t second, uint64_t third)
    SORDINO_NAMED("sordino_emit_scalars");
void sordino_say(const char *name, const char *text) SORDINO_NAMED("sordino_say");

/* The functions and macros below are written for short compilation times (docs/design/0031-compilation-time.md). To
 * compile a tracepoint's inline function, gcc executes 0.8 million instructions if the function only calls another, 2
 * million more for a local array, and 7 million more for a branch with one. */

/* The tracepoints of the module, a program or a shared library. The linker puts those of all its files in a row. */
extern struct sordino_tracepoint sordino_points_begin[] SORDINO_NAMED("__start_sordino_points")
    __attribute__((weak, visibility("hidden")));
extern struct sordino_tracepoint sordino_points_end[] SORDINO_NAMED("__stop_sordino_points")
    __attribute__((weak, visibility("hidden")));
/* 1 if the module's tracepoints are registered. The linker keeps one of the definitions in all the module's files. */
extern unsigned char sordino_points_are_registered SORDINO_NAMED("sordino_points_are_registered");
__attribute__((weak, visibility("hidden"))) unsigned char sordino_points_are_registered;

/* LLVM's linker would discard the tracepoints with --gc-sections. */
#if defined(__clang__) && __has_attribute(retain)
#define SORDINO_KEPT used, retain
#else
#define SORDINO_KEPT used
#endif

/* Attributes of the functions in these headers. The program's own functions are recorded with -finstrument-functions,
 * these are not. */
#define SORDINO_OWN __attribute__((unused, no_instrument_function))

/* The first constructor of every tracepoint. The module's first call registers all of its tracepoints. */
SORDINO_OWN static void sordino_register_points(void)
{
    if (!sordino_points_are_registered) {
        sordino_points_are_registered = 1;
        for (struct sordino_tracepoint *point = sordino_points_begin; point != sordino_points_end; point++)
            sordino_register(point);
    }
}

/* The value of a tracepoint's enable word, which contains the sessions that enabled it; 0 if none has. */
#define SORDINO_ENABLED(point) \
    __atomic_load_n(__atomic_load_n(&(point).enabled, __ATOMIC_RELAXED), __ATOMIC_ACQUIRE)

/* The inline filter: the condition, a single comparison, of the one session that enabled a tracepoint, if bit 1 of the
 * enable word is set. This is struct InlineFilter in crates/recording/ring/src/layout.rs. The enable word's bits from 8 on are the
 * distance in bytes from the word to the filter. */
struct sordino_inline_filter {
    uint64_t low, span;
    uint32_t field, unused;
};
#define SORDINO_INLINE_FILTER 2

/* Returns true if the inline filter rejects a hit with these values, one word for each of 'count' fields, with any
 * value for a field that is no integer. */
SORDINO_OWN static inline __attribute__((always_inline)) bool sordino_is_rejected(
    const struct sordino_tracepoint *point, uint64_t enabled, const uint64_t *values, size_t count)
{
    const uint64_t *const word = __atomic_load_n(&point->enabled, __ATOMIC_RELAXED);
    const struct sordino_inline_filter *const filter =
        (const struct sordino_inline_filter *)(const void *)((const unsigned char *)word + (enabled >> 8));
    const uint32_t field = __atomic_load_n(&filter->field, __ATOMIC_RELAXED);
    const uint64_t value = field < count ? values[field] : 0;
    return value - __atomic_load_n(&filter->low, __ATOMIC_RELAXED) > __atomic_load_n(&filter->span, __ATOMIC_RELAXED);
}

/* The size of a record with so many bytes of payload, and the bytes that are copied: see EncodedLength in
 * crates/recording/ring/src/offset.rs. */
#define SORDINO_ENCODED_LENGTH(length) \
    ((16 + (uint64_t)(length) + 2 * (-(uint64_t)(length) & 7)) | (((uint64_t)(length) + 7) & ~(uint64_t)7) << 32)

/* Emits a staged payload of fixed length. Passes two words in registers, so that the compiler removes the stage, unless
 * there is an inline filter, which the caller has tested. */
SORDINO_OWN static inline __attribute__((always_inline)) void sordino_emit_fixed(
    const struct sordino_tracepoint *point, uint64_t enabled, const unsigned char *stage, size_t length)
{
    if (length == 16 && !(enabled & SORDINO_INLINE_FILTER)) {
        uint64_t words[2];
        memcpy(words, stage, sizeof words);
        sordino_emit_pair(point, enabled, words[0], words[1]);
    } else {
        sordino_emit(point, enabled, stage, SORDINO_ENCODED_LENGTH(length));
    }
}

/* Copies text of known size, zero byte included, and returns the address behind it. Replaces zero bytes that another
 * thread has written into the text meanwhile: they would end it early in the trace and displace the fields behind
 * it. */
SORDINO_OWN static inline unsigned char *sordino_put_text(unsigned char *to, const char *text, size_t size)
{
    unsigned char *zero;
    memcpy(to, text, size - 1);
    while ((zero = (unsigned char *)memchr(to, 0, size - 1)) != NULL)
        *zero = '?';
    to[size - 1] = 0;
    return to + size;
}

SORDINO_OWN static inline const char *sordino_text(const char *text)
{
    return text ? text : "(null)";
}

/* Return the bits of a floating-point number. */
SORDINO_OWN static inline __attribute__((always_inline)) uint64_t sordino_bits_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
SORDINO_OWN static inline __attribute__((always_inline)) uint64_t sordino_bits_f64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The layout of a payload of up to three scalars of these sizes (0: no such scalar): SORDINO_ENCODED_LENGTH, of which both parts
 * fit into a byte here, and the offsets in the payload of the second scalar (bits 8 to 15), of the third (bits 16 to
 * 23) and of the payload's end (bits 24 to 31). */
#define SORDINO_LAYOUT(first, second, third) \
    (SORDINO_ENCODED_LENGTH((first) + (second) + (third)) | (uint64_t)(first) << 8 | (uint64_t)((first) + (second)) << 16 \
        | (uint64_t)((first) + (second) + (third)) << 24)

/* Stages the payload of sordino_emit_text on the stack, and emits it. */
SORDINO_OWN __attribute__((noinline)) static void sordino_stage_text(const struct sordino_tracepoint *point,
    uint64_t enabled, uint64_t layout, const char *text, uint64_t first, uint64_t second)
{
    const size_t before = layout & 255, m = layout >> 8 & 255, n = layout >> 16 & 255;
    text = sordino_text(text);
    const size_t size = strlen(text) + 1, length = m + n + size;
    if (length > SORDINO_MAX_PAYLOAD) {
        sordino_emit(point, enabled, NULL, SORDINO_ENCODED_LENGTH((uint64_t)1 << 30));
        return;
    }
    unsigned char *const stage = (unsigned char *)__builtin_alloca(length + 8), *to = stage;
    if (before == 0)
        to = sordino_put_text(to, text, size);
    /* The surplus bytes of a scalar are overwritten by the following bytes. */
    memcpy(to, &first, 8);
    to += m;
    if (before == 1)
        to = sordino_put_text(to, text, size);
    memcpy(to, &second, 8);
    to += n;
    if (before == 2)
        to = sordino_put_text(to, text, size);
    memset(to, 0, 8);
    sordino_emit(point, enabled, stage, SORDINO_ENCODED_LENGTH(length));
}

/* Emits a text and up to two scalars, if no inline filter rejects them; a missing scalar is 0, and so is its size. The
 * layout contains the number of scalars before the text (bits 0 to 7) and the sizes of both (bits 8 to 15 and 16 to
 * 23). */
SORDINO_OWN __attribute__((noinline)) static void sordino_emit_text(const struct sordino_tracepoint *point,
    uint64_t enabled, uint64_t layout, const char *text, uint64_t first, uint64_t second)
{
    if (enabled & SORDINO_INLINE_FILTER) {
        const uint64_t values[] = {first, (layout & 255) == 0 ? first : second, second};
        if (sordino_is_rejected(point, enabled, values, 3))
            return;
    }
    sordino_stage_text(point, enabled, layout, text, first, second);
}

/* Emits a line of text that is formatted on the stack, as by printf, and cut after 1,023 bytes. Leaves errno as it
 * was. */
SORDINO_OWN __attribute__((format(printf, 3, 0))) static inline void sordino_emit_line(
    const struct sordino_tracepoint *point, uint64_t enabled, const char *format, va_list arguments)
{
    __attribute__((aligned(8))) unsigned char text[1024];
    const int error = errno, length = vsnprintf((char *)text, sizeof text, format, arguments);
    errno = error;
    if (length >= 0) {
        size_t size = (size_t)length < sizeof text ? (size_t)length + 1 : sizeof text;
        sordino_emit(point, enabled, text, SORDINO_ENCODED_LENGTH(size));
    }
}

/* Records a line of text, formatted as by printf: the event sordino:mark. The text is formatted only if a session has
 * enabled the event, on the stack, and is cut after 1,023 bytes. Leaves errno as it was. */
SORDINO_OWN __attribute__((format(printf, 1, 2))) static inline void sordino_mark(const char *format, ...)
{
    const uint64_t enabled = SORDINO_ENABLED(sordino_mark_point);
    if (__builtin_expect(enabled != 0, 0)) {
        va_list arguments;
        va_start(arguments, format);
        sordino_emit_line(&sordino_mark_point, enabled, format, arguments);
        va_end(arguments);
    }
}

/* Requests a snapshot from every session that records this program, with the reason as text: the event
 * sordino:snapshot. Does not wait for it: the recorder writes the snapshot while the program goes on. A session that
 * takes no snapshots only records the event. The text is formatted as that of sordino_mark. Leaves errno as it was. */
SORDINO_OWN __attribute__((format(printf, 1, 2))) static inline void sordino_snapshot(const char *why, ...)
{
    const uint64_t enabled = SORDINO_ENABLED(sordino_snapshot_point);
    if (__builtin_expect(enabled != 0, 0)) {
        va_list arguments;
        va_start(arguments, why);
        sordino_emit_line(&sordino_snapshot_point, enabled, why, arguments);
        va_end(arguments);
    }
}

/* Annotates this thread's later events with a text under a name, such as the request that it serves. An annotation
 * stays until the thread sets the next one under that name; an empty text removes it. A name has at most 24 bytes, a
 * text, formatted as by printf, at most 80; longer ones are cut. 'sordino events' shows the annotations with each event
 * of the thread, also in sessions that began later. The call formats and copies the text, whether or not a session
 * records, then records the event sordino:context if a session has enabled it. Later events cost no more than without
 * annotations. Waits for nobody. Leaves errno as it was. */
SORDINO_OWN __attribute__((format(printf, 2, 3))) static inline void sordino_context(
    const char *name, const char *format, ...)
{
    char text[84];
    const int error = errno;
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    errno = error;
    if (length >= 0)
        sordino_say(sordino_text(name), text);
}

/* Opens performance counters for this thread, whose values precede its later events in every recording with '--context
 * counters'. 'names' are up to 8 names of perf, separated by commas. The counters replace those that the thread had
 * before; "" closes them, and so does the thread's end.
 *
 *     char why[256];
 *     if (sordino_counters("cycles,instructions,page-faults", why, sizeof why) != 0)
 *         fprintf(stderr, "no counters: %s\n", why);
 *
 * The processor counts: cycles, instructions, cache-references, cache-misses, branches, branch-misses, bus-cycles,
 * stalled-cycles-frontend, stalled-cycles-backend, ref-cycles. The kernel counts: page-faults, minor-faults,
 * major-faults, context-switches, cpu-migrations, task-clock (nanoseconds). A counter includes the kernel's work for
 * the thread, unless that is not permitted or the name ends with ":u"; then it is recorded under the name with ":u".
 *
 * Returns 0, or a negative error number, and writes the reason as text to 'why', cut to 'size' bytes with its zero
 * byte; 'why' may be NULL, with a size of 0:
 *
 *     -EINVAL  a name is no counter's, or is there twice
 *     -E2BIG   there are more than 8 names
 *     -ENOENT  this machine does not have the counter
 *     -EACCES  the counter is not permitted; 'why' contains the remedy
 *     -ENOSPC  the processor's counters are in use
 *     -EUSERS  256 threads of the program have counters already
 *     -ESRCH   the thread is about to end
 *     others   the kernel's error, such as -EMFILE
 *
 * Not for a thread's real-time part, and not for signal handlers: the function makes system calls, allocates, and waits
 * for recorders when the program calls it for the first time. In such a recording, a hit then costs some loads and an
 * instruction for each of the processor's counters that the kernel lets programs read, and two system calls for each
 * other one. Other recordings cost no more than before. */
int sordino_counters(const char *names, char *why, size_t size) SORDINO_NAMED("sordino_counters");

#ifdef __cplusplus
}
static_assert(sizeof(struct sordino_tracepoint) == 24 && sizeof(struct sordino_description) == 48, "layout");
static_assert(sizeof(struct sordino_field) == 40 && sizeof(struct sordino_label) == 24, "layout");
#else
_Static_assert(sizeof(struct sordino_tracepoint) == 24 && sizeof(struct sordino_description) == 48, "layout");
_Static_assert(sizeof(struct sordino_field) == 40 && sizeof(struct sordino_label) == 24, "layout");
#endif

/* Declares the labels of an enumeration, at file scope:
 *
 *     SORDINO_LABELS(states, (IDLE, "idle"), (RUNNING, "running"), (100, 199, "vendor"))
 *
 * A label names one value or a range. */
#define SORDINO_LABELS(labels, ...) \
    __attribute__((unused)) static const struct sordino_label sordino_labels_##labels[] = { \
        SORDINO_EACH(SORDINO_COUNT(unused, __VA_ARGS__), SORDINO_LABEL, unused, __VA_ARGS__)};
#define SORDINO_LABEL(...) SORDINO_PASTE(SORDINO_LABEL_, SORDINO_COUNT(unused, __VA_ARGS__))(__VA_ARGS__)
#define SORDINO_LABEL_2(value, text) {(int64_t)(value), (int64_t)(value), text},
#define SORDINO_LABEL_3(low, high, text) {(int64_t)(low), (int64_t)(high), text},

/* Declares a tracepoint: SORDINO_TRACEPOINT(provider, name, level, fields...). */
#define SORDINO_TRACEPOINT(provider, name, ...) \
    SORDINO_DECLARE(provider, name, provider##_##name, SORDINO_COUNT(__VA_ARGS__), __VA_ARGS__)

#define SORDINO_DECLARE(provider, name, id, count, ...) \
    __attribute__((unused)) static const struct sordino_field sordino_fields_##id[] = { \
        SORDINO_EACH(count, SORDINO_FIELD, __VA_ARGS__){NULL, NULL, 0, 0, NULL, 0}}; \
    static const struct sordino_description sordino_description_##id = {#provider, #name, __FILE__, __LINE__, \
        (uint32_t)(SORDINO_LEVEL(__VA_ARGS__, unused)), sordino_fields_##id, count}; \
    /* Aligned as it is declared, so that there are no gaps between them. */ \
    __attribute__((SORDINO_KEPT, section(SORDINO_OF_LAYOUT("sordino_points")), aligned(8))) \
        static struct sordino_tracepoint sordino_point_##id = { \
        &sordino_nobody, 0, &sordino_description_##id}; \
    /* Constructors with these priorities run before those without; the second when all of the first have. */ \
    __attribute__((used, section(".init_array.00101"))) static void (*sordino_register_##id)(void) = sordino_register_points; \
    __attribute__((used, section(".init_array.00102"))) static void (*sordino_ready_##id)(void) = sordino_ready; \
    SORDINO_PASTE(SORDINO_DEFINE_, SORDINO_FORM(count, __VA_ARGS__))(id, count, __VA_ARGS__)

/* A hit of up to three scalars, whose values are passed in registers. */
#define SORDINO_DEFINE_scalars(id, count, ...) \
    SORDINO_OWN static inline void sordino_hit_##id( \
        SORDINO_EACH(count, SORDINO_PARAMETER, __VA_ARGS__) uint64_t sordino_w) \
    { \
        SORDINO_PASTE(SORDINO_SCALARS_, count)(id, __VA_ARGS__) \
    }
#define SORDINO_SCALARS_1(id, level, f) SORDINO_EMIT_SCALARS(id, SORDINO_WORD f, SORDINO_SIZE f, 0, 0, 0, 0)
#define SORDINO_SCALARS_2(id, level, f, g) \
    SORDINO_EMIT_SCALARS(id, SORDINO_WORD f, SORDINO_SIZE f, SORDINO_WORD g, SORDINO_SIZE g, 0, 0)
#define SORDINO_SCALARS_3(id, level, f, g, h) \
    SORDINO_EMIT_SCALARS(id, SORDINO_WORD f, SORDINO_SIZE f, SORDINO_WORD g, SORDINO_SIZE g, SORDINO_WORD h, SORDINO_SIZE h)
#define SORDINO_EMIT_SCALARS(id, first, m, second, n, third, o) \
    if (m == 8 && n == 8 && o == 0) \
        sordino_emit_pair(&sordino_point_##id, sordino_w, first, second); \
    else \
        sordino_emit_scalars(&sordino_point_##id, sordino_w, SORDINO_LAYOUT(m, n, o), first, second, third);

/* A hit of a string, s, and up to two scalars, v. The string is passed as a pointer and not as a word, so that gcc
 * knows that the call reads the text. */
#define SORDINO_DEFINE_s(id, count, l, f) \
    SORDINO_DEFINE_TEXT(id, (count, SORDINO_PARAMETER, l, f), 0, SORDINO_VALUE f, 0, 0, 0, 0)
#define SORDINO_DEFINE_sv(id, count, l, f, g) \
    SORDINO_DEFINE_TEXT(id, (count, SORDINO_PARAMETER, l, f, g), 0, SORDINO_VALUE f, SORDINO_WORD g, SORDINO_SIZE g, 0, 0)
#define SORDINO_DEFINE_vs(id, count, l, f, g) \
    SORDINO_DEFINE_TEXT(id, (count, SORDINO_PARAMETER, l, f, g), 1, SORDINO_VALUE g, SORDINO_WORD f, SORDINO_SIZE f, 0, 0)
#define SORDINO_DEFINE_svv(id, count, l, f, g, h) \
    SORDINO_DEFINE_TEXT(id, (count, SORDINO_PARAMETER, l, f, g, h), 0, SORDINO_VALUE f, \
        SORDINO_WORD g, SORDINO_SIZE g, SORDINO_WORD h, SORDINO_SIZE h)
#define SORDINO_DEFINE_vsv(id, count, l, f, g, h) \
    SORDINO_DEFINE_TEXT(id, (count, SORDINO_PARAMETER, l, f, g, h), 1, SORDINO_VALUE g, \
        SORDINO_WORD f, SORDINO_SIZE f, SORDINO_WORD h, SORDINO_SIZE h)
#define SORDINO_DEFINE_vvs(id, count, l, f, g, h) \
    SORDINO_DEFINE_TEXT(id, (count, SORDINO_PARAMETER, l, f, g, h), 2, SORDINO_VALUE h, \
        SORDINO_WORD f, SORDINO_SIZE f, SORDINO_WORD g, SORDINO_SIZE g)
#define SORDINO_DEFINE_TEXT(id, fields, before, text, first, m, second, n) \
    SORDINO_OWN static inline void sordino_hit_##id(SORDINO_EACH fields uint64_t sordino_w) \
    { \
        sordino_emit_text( \
            &sordino_point_##id, sordino_w, (before) | (uint64_t)(m) << 8 | (uint64_t)(n) << 16, text, first, second); \
    }
#define SORDINO_VALUE(kind, name) sordino_v_##name

/* A hit of any other fields, whose values are staged on the stack. */
#define SORDINO_DEFINE_any(id, count, ...) \
    /* Strings and sequences are staged on the stack of a function of their own. */ \
    SORDINO_OWN __attribute__((noinline, cold)) static void sordino_hit_large_##id( \
        SORDINO_EACH(count, SORDINO_PARAMETER, __VA_ARGS__) uint64_t sordino_w) \
    { \
        SORDINO_EACH(count, SORDINO_LOCAL, __VA_ARGS__) \
        const size_t sordino_length = 0 SORDINO_EACH(count, SORDINO_LENGTH, __VA_ARGS__); \
        if (sordino_length <= SORDINO_MAX_PAYLOAD) { \
            unsigned char *const sordino_stage = (unsigned char *)__builtin_alloca(sordino_length + 8); \
            __attribute__((unused)) unsigned char *sordino_to = sordino_stage; \
            memset(sordino_stage + (sordino_length & ~(size_t)7), 0, 8); \
            SORDINO_EACH(count, SORDINO_PUT, __VA_ARGS__) \
            sordino_emit(&sordino_point_##id, sordino_w, sordino_stage, SORDINO_ENCODED_LENGTH(sordino_length)); \
        } else { \
            sordino_emit(&sordino_point_##id, sordino_w, NULL, SORDINO_ENCODED_LENGTH((uint64_t)1 << 30)); \
        } \
    } \
    SORDINO_OWN static inline void sordino_hit_##id( \
        SORDINO_EACH(count, SORDINO_PARAMETER, __VA_ARGS__) uint64_t sordino_w) \
    { \
        enum { \
            sordino_fixed = 1 SORDINO_EACH(count, SORDINO_IS_FIXED, __VA_ARGS__), \
            sordino_size = sordino_fixed ? 0 SORDINO_EACH(count, SORDINO_FIXED_LENGTH, __VA_ARGS__) : 0 \
        }; \
        if (sordino_w & SORDINO_INLINE_FILTER) { \
            const uint64_t sordino_values[] = {SORDINO_EACH(count, SORDINO_COMPARED, __VA_ARGS__) 0}; \
            if (sordino_is_rejected(&sordino_point_##id, sordino_w, sordino_values, count)) \
                return; \
        } \
        if (sordino_fixed && sordino_size <= 512) { \
            __attribute__((aligned(8))) unsigned char sordino_stage[sordino_size <= 512 ? sordino_size + 8 : 8]; \
            __attribute__((unused)) unsigned char *sordino_to = sordino_stage; \
            if (sordino_size % 8 != 0 || sordino_size == 0) \
                memset(sordino_stage + (sordino_size & ~7), 0, 8); \
            SORDINO_EACH(count, SORDINO_PUT_FIXED, __VA_ARGS__) \
            sordino_emit_fixed(&sordino_point_##id, sordino_w, sordino_stage, sordino_size); \
        } else { \
            sordino_hit_large_##id(SORDINO_EACH(count, SORDINO_ARGUMENT, __VA_ARGS__) sordino_w); \
        } \
    }

/* Hits a tracepoint: sordino_tracepoint(provider, name, values...). */
#define sordino_tracepoint(provider, ...) SORDINO_HIT(provider, __VA_ARGS__, sordino_w)
#define SORDINO_HIT(provider, name, ...) \
    do { \
        const uint64_t sordino_w = SORDINO_ENABLED(sordino_point_##provider##_##name); \
        if (__builtin_expect(sordino_w != 0, 0)) \
            sordino_hit_##provider##_##name(__VA_ARGS__); \
    } while (0)

/* True if a session has enabled a tracepoint: for values that are expensive to compute. */
#define sordino_enabled(provider, name) (SORDINO_ENABLED(sordino_point_##provider##_##name) != 0)

/* The code that each class of field adds to the parts of a tracepoint. */

/* The field's description. */
#define SORDINO_FIELD(kind, ...) SORDINO_OF(SORDINO_FIELD_, kind)(kind, __VA_ARGS__)
#define SORDINO_FIELD_scalar(kind, name) {#name, SORDINO_NAME(kind), 0, 0, NULL, 0},
#define SORDINO_FIELD_real(kind, name) {#name, SORDINO_NAME(kind), 0, 0, NULL, 0},
#define SORDINO_FIELD_network(kind, name) {#name, SORDINO_NAME(kind), 0, 0, NULL, 0},
#define SORDINO_FIELD_boolean(kind, name) {#name, SORDINO_NAME(kind), 0, 0, NULL, 0},
#define SORDINO_FIELD_enumeration(kind, labels, scalar, name) \
    {#name, "enum:" SORDINO_NAME(scalar), 0, 0, sordino_labels_##labels, \
        sizeof sordino_labels_##labels / sizeof(struct sordino_label)},
#define SORDINO_FIELD_string(kind, name) {#name, "", 3, 0, NULL, 0},
#define SORDINO_FIELD_array(kind, scalar, name, length) {#name, SORDINO_NAME(scalar), 1, (length), NULL, 0},
#define SORDINO_FIELD_sequence(kind, scalar, name) {#name, SORDINO_NAME(scalar), 2, 0, NULL, 0},
#define SORDINO_FIELD_blob(kind, name) {#name, "u8x", 2, 0, NULL, 0},

/* The parameters of the hit's function for a field, each with a comma behind it. */
#define SORDINO_PARAMETER(kind, ...) SORDINO_OF(SORDINO_PARAMETER_, kind)(kind, __VA_ARGS__)
#define SORDINO_PARAMETER_scalar(kind, name) SORDINO_TYPE_##kind sordino_v_##name,
#define SORDINO_PARAMETER_real(kind, name) SORDINO_TYPE_##kind sordino_v_##name,
#define SORDINO_PARAMETER_network(kind, name) SORDINO_TYPE_##kind sordino_v_##name,
#define SORDINO_PARAMETER_boolean(kind, name) SORDINO_TYPE_##kind sordino_v_##name,
#define SORDINO_PARAMETER_enumeration(kind, labels, scalar, name) SORDINO_TYPE_##scalar sordino_v_##name,
#define SORDINO_PARAMETER_string(kind, name) const char *sordino_v_##name,
#define SORDINO_PARAMETER_array(kind, scalar, name, length) const SORDINO_TYPE_##scalar *sordino_v_##name,
#define SORDINO_PARAMETER_sequence(kind, scalar, name) \
    const SORDINO_TYPE_##scalar *sordino_v_##name, size_t sordino_n_##name,
#define SORDINO_PARAMETER_blob(kind, name) const void *sordino_v_##name, size_t sordino_n_##name,

/* The arguments that pass these parameters on to another function. */
#define SORDINO_ARGUMENT(kind, ...) SORDINO_OF(SORDINO_ARGUMENT_, kind)(kind, __VA_ARGS__)
#define SORDINO_ARGUMENT_scalar(kind, name) sordino_v_##name,
#define SORDINO_ARGUMENT_real(kind, name) sordino_v_##name,
#define SORDINO_ARGUMENT_network(kind, name) sordino_v_##name,
#define SORDINO_ARGUMENT_boolean(kind, name) sordino_v_##name,
#define SORDINO_ARGUMENT_enumeration(kind, labels, scalar, name) sordino_v_##name,
#define SORDINO_ARGUMENT_string(kind, name) sordino_v_##name,
#define SORDINO_ARGUMENT_array(kind, scalar, name, length) sordino_v_##name,
#define SORDINO_ARGUMENT_sequence(kind, scalar, name) sordino_v_##name, sordino_n_##name,
#define SORDINO_ARGUMENT_blob(kind, name) sordino_v_##name, sordino_n_##name,

/* A factor of 0 for a field whose values have different lengths. */
#define SORDINO_IS_FIXED(kind, ...) SORDINO_OF(SORDINO_IS_FIXED_, kind)
#define SORDINO_IS_FIXED_scalar
#define SORDINO_IS_FIXED_real
#define SORDINO_IS_FIXED_network
#define SORDINO_IS_FIXED_boolean
#define SORDINO_IS_FIXED_enumeration
#define SORDINO_IS_FIXED_array
#define SORDINO_IS_FIXED_string *0
#define SORDINO_IS_FIXED_sequence *0
#define SORDINO_IS_FIXED_blob *0

/* The number of bytes, as a summand, of a field whose values have the same length. */
#define SORDINO_FIXED_LENGTH(kind, ...) SORDINO_OF(SORDINO_FIXED_LENGTH_, kind)(kind, __VA_ARGS__)
#define SORDINO_FIXED_LENGTH_scalar(kind, name) +(int)sizeof(SORDINO_TYPE_##kind)
#define SORDINO_FIXED_LENGTH_real(kind, name) +(int)sizeof(SORDINO_TYPE_##kind)
#define SORDINO_FIXED_LENGTH_network(kind, name) +(int)sizeof(SORDINO_TYPE_##kind)
#define SORDINO_FIXED_LENGTH_boolean(kind, name) +1
#define SORDINO_FIXED_LENGTH_enumeration(kind, labels, scalar, name) +(int)sizeof(SORDINO_TYPE_##scalar)
#define SORDINO_FIXED_LENGTH_array(kind, scalar, name, length) +(int)(sizeof(SORDINO_TYPE_##scalar) * (length))
#define SORDINO_FIXED_LENGTH_string(kind, name)
#define SORDINO_FIXED_LENGTH_sequence(kind, scalar, name)
#define SORDINO_FIXED_LENGTH_blob(kind, name)

/* A scalar's value in a word, in which inline filters compare an integer; 0 for other fields. */
#define SORDINO_WORD(kind, ...) SORDINO_OF(SORDINO_WORD_, kind)(kind, __VA_ARGS__)
#define SORDINO_WORD_scalar(kind, name) (uint64_t)sordino_v_##name
#define SORDINO_WORD_real(kind, name) sordino_bits_##kind(sordino_v_##name)
#define SORDINO_WORD_network(kind, name) (uint64_t)sordino_v_##name
#define SORDINO_WORD_boolean(kind, name) (uint64_t)sordino_v_##name
#define SORDINO_WORD_enumeration(kind, labels, scalar, name) SORDINO_OF(SORDINO_WORD_, scalar)(scalar, name)
#define SORDINO_WORD_array(kind, scalar, name, length) 0
#define SORDINO_WORD_string(kind, name) 0
#define SORDINO_WORD_sequence(kind, scalar, name) 0
#define SORDINO_WORD_blob(kind, name) 0
#define SORDINO_COMPARED(...) SORDINO_WORD(__VA_ARGS__),

/* SORDINO_FORM(count, level, fields...): the form of a tracepoint's hits: scalars, the letters of a string and scalars,
 * or any. */
#define SORDINO_FORM(count, ...) \
    SORDINO_CHOICE(SORDINO_FORM_, SORDINO_CHOICE(SORDINO_LETTERS_, count, SORDINO_NO_LETTERS)(__VA_ARGS__), any)
#define SORDINO_LETTERS_1 ~, SORDINO_LETTERS_OF_1
#define SORDINO_LETTERS_2 ~, SORDINO_LETTERS_OF_2
#define SORDINO_LETTERS_3 ~, SORDINO_LETTERS_OF_3
#define SORDINO_LETTERS_OF_1(level, f) SORDINO_LETTER f
#define SORDINO_LETTERS_OF_2(level, f, g) SORDINO_PASTE(SORDINO_LETTER f, SORDINO_LETTER g)
#define SORDINO_LETTERS_OF_3(level, f, g, h) \
    SORDINO_PASTE(SORDINO_LETTER f, SORDINO_PASTE(SORDINO_LETTER g, SORDINO_LETTER h))
#define SORDINO_NO_LETTERS(...) x
#define SORDINO_FORM_v ~, scalars
#define SORDINO_FORM_vv ~, scalars
#define SORDINO_FORM_vvv ~, scalars
#define SORDINO_FORM_s ~, s
#define SORDINO_FORM_sv ~, sv
#define SORDINO_FORM_vs ~, vs
#define SORDINO_FORM_svv ~, svv
#define SORDINO_FORM_vsv ~, vsv
#define SORDINO_FORM_vvs ~, vvs

/* A field's letter: v for a scalar whose bytes are those of its word, s for a string, x for others. */
#define SORDINO_LETTER(kind, ...) SORDINO_OF(SORDINO_LETTER_, kind)(kind, __VA_ARGS__)
#define SORDINO_LETTER_scalar(kind, name) v
#define SORDINO_LETTER_real(kind, name) v
#define SORDINO_LETTER_network(kind, name) x
#define SORDINO_LETTER_boolean(kind, name) v
#define SORDINO_LETTER_enumeration(kind, labels, scalar, name) SORDINO_OF(SORDINO_LETTER_, scalar)(scalar, name)
#define SORDINO_LETTER_array(kind, scalar, name, length) x
#define SORDINO_LETTER_string(kind, name) s
#define SORDINO_LETTER_sequence(kind, scalar, name) x
#define SORDINO_LETTER_blob(kind, name) x

/* A scalar's size in bytes, as a number, because sizeof takes the compiler longer. */
#define SORDINO_SIZE(kind, ...) SORDINO_OF(SORDINO_SIZE_, kind)(kind, __VA_ARGS__)
#define SORDINO_SIZE_scalar(kind, name) SORDINO_BYTES_##kind
#define SORDINO_SIZE_real(kind, name) SORDINO_BYTES_##kind
#define SORDINO_SIZE_boolean(kind, name) SORDINO_BYTES_##kind
#define SORDINO_SIZE_enumeration(kind, labels, scalar, name) SORDINO_BYTES_##scalar

/* The local variables that are computed before the record is staged: the sizes of strings. */
#define SORDINO_LOCAL(kind, ...) SORDINO_OF(SORDINO_LOCAL_, kind)(kind, __VA_ARGS__)
#define SORDINO_LOCAL_scalar(kind, name)
#define SORDINO_LOCAL_real(kind, name)
#define SORDINO_LOCAL_network(kind, name)
#define SORDINO_LOCAL_boolean(kind, name)
#define SORDINO_LOCAL_enumeration(kind, labels, scalar, name)
#define SORDINO_LOCAL_array(kind, scalar, name, length)
#define SORDINO_LOCAL_string(kind, name) const size_t sordino_n_##name = strlen(sordino_text(sordino_v_##name)) + 1;
#define SORDINO_LOCAL_sequence(kind, scalar, name)
#define SORDINO_LOCAL_blob(kind, name)

/* The number of bytes of a field's value, as a summand. A length above the limit of a record is reduced, to one that is
 * still above the limit, so that the sum does not overflow. */
#define SORDINO_LENGTH(kind, ...) SORDINO_OF(SORDINO_LENGTH_, kind)(kind, __VA_ARGS__)
#define SORDINO_LENGTH_scalar(kind, name) +sizeof(SORDINO_TYPE_##kind)
#define SORDINO_LENGTH_real(kind, name) +sizeof(SORDINO_TYPE_##kind)
#define SORDINO_LENGTH_network(kind, name) +sizeof(SORDINO_TYPE_##kind)
#define SORDINO_LENGTH_boolean(kind, name) +1
#define SORDINO_LENGTH_enumeration(kind, labels, scalar, name) +sizeof(SORDINO_TYPE_##scalar)
#define SORDINO_LENGTH_array(kind, scalar, name, length) +sizeof(SORDINO_TYPE_##scalar) * (length)
#define SORDINO_LENGTH_string(kind, name) +SORDINO_AT_MOST(sordino_n_##name)
#define SORDINO_LENGTH_sequence(kind, scalar, name) \
    +2 + sizeof(SORDINO_TYPE_##scalar) * SORDINO_AT_MOST(sordino_n_##name)
#define SORDINO_LENGTH_blob(kind, name) +2 + SORDINO_AT_MOST(sordino_n_##name)
#define SORDINO_AT_MOST(n) ((n) < 65536 ? (n) : (size_t)65536)

/* Stages a field of fixed size; the code for other fields is never reached. */
#define SORDINO_PUT_FIXED(kind, ...) SORDINO_OF(SORDINO_PUT_FIXED_, kind)(kind, __VA_ARGS__)
#define SORDINO_PUT_FIXED_scalar(kind, name) SORDINO_PUT_ONE(kind, sordino_v_##name)
#define SORDINO_PUT_FIXED_real(kind, name) SORDINO_PUT_ONE(kind, sordino_v_##name)
#define SORDINO_PUT_FIXED_network(kind, name) SORDINO_PUT_ONE(kind, sordino_v_##name)
#define SORDINO_PUT_FIXED_boolean(kind, name) SORDINO_PUT_ONE(kind, sordino_v_##name)
#define SORDINO_PUT_FIXED_enumeration(kind, labels, scalar, name) SORDINO_PUT_ONE(scalar, sordino_v_##name)
#define SORDINO_PUT_FIXED_array(kind, scalar, name, length) SORDINO_PUT_ALL(scalar, sordino_v_##name, (length))
#define SORDINO_PUT_FIXED_string(kind, name) (void)sordino_v_##name;
#define SORDINO_PUT_FIXED_sequence(kind, scalar, name) (void)sordino_v_##name;
#define SORDINO_PUT_FIXED_blob(kind, name) (void)sordino_v_##name;

/* Stages a field of any size. */
#define SORDINO_PUT(kind, ...) SORDINO_OF(SORDINO_PUT_, kind)(kind, __VA_ARGS__)
#define SORDINO_PUT_scalar(kind, name) SORDINO_PUT_ONE(kind, sordino_v_##name)
#define SORDINO_PUT_real(kind, name) SORDINO_PUT_ONE(kind, sordino_v_##name)
#define SORDINO_PUT_network(kind, name) SORDINO_PUT_ONE(kind, sordino_v_##name)
#define SORDINO_PUT_boolean(kind, name) SORDINO_PUT_ONE(kind, sordino_v_##name)
#define SORDINO_PUT_enumeration(kind, labels, scalar, name) SORDINO_PUT_ONE(scalar, sordino_v_##name)
#define SORDINO_PUT_array(kind, scalar, name, length) SORDINO_PUT_ALL(scalar, sordino_v_##name, (length))
#define SORDINO_PUT_string(kind, name) \
    sordino_to = sordino_put_text(sordino_to, sordino_text(sordino_v_##name), sordino_n_##name);
#define SORDINO_PUT_sequence(kind, scalar, name) \
    SORDINO_PUT_ONE(u16, sordino_n_##name) \
    SORDINO_PUT_ALL(scalar, sordino_v_##name, sordino_n_##name)
#define SORDINO_PUT_blob(kind, name) \
    SORDINO_PUT_ONE(u16, sordino_n_##name) \
    if (sordino_n_##name != 0) \
        memcpy(sordino_to, sordino_v_##name, sordino_n_##name); \
    sordino_to += sordino_n_##name;

#define SORDINO_PUT_ONE(kind, value) \
    { \
        const SORDINO_TYPE_##kind sordino_s = (SORDINO_TYPE_##kind)SORDINO_STORED(kind, value); \
        memcpy(sordino_to, &sordino_s, sizeof sordino_s); \
        sordino_to += sizeof sordino_s; \
    }
#define SORDINO_PUT_ALL(kind, values, count) \
    for (size_t sordino_i = 0; sordino_i < (size_t)(count); sordino_i++) \
        SORDINO_PUT_ONE(kind, (values)[sordino_i])

/* A scalar's value in the form in which it is recorded. */
#define SORDINO_STORED(kind, value) SORDINO_OF(SORDINO_STORED_, kind)(kind, value)
#define SORDINO_STORED_scalar(kind, value) (value)
#define SORDINO_STORED_real(kind, value) (value)
#define SORDINO_STORED_boolean(kind, value) ((value) ? 1 : 0)
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define SORDINO_STORED_network(kind, value) (value)
#else
#define SORDINO_STORED_network(kind, value) \
    (sizeof(SORDINO_TYPE_##kind) == 2       ? (uint64_t)__builtin_bswap16((uint16_t)(value)) \
            : sizeof(SORDINO_TYPE_##kind) == 4 ? (uint64_t)__builtin_bswap32((uint32_t)(value)) \
            : sizeof(SORDINO_TYPE_##kind) == 8 ? (uint64_t)__builtin_bswap64((uint64_t)(value)) \
                                               : (uint64_t)(value))
#endif

/* The name of a scalar's type, as defined in crates/event/src/schema.rs. */
#define SORDINO_NAME(kind) SORDINO_OF(SORDINO_NAME_, kind)(kind)
#define SORDINO_NAME_scalar(kind) #kind
#define SORDINO_NAME_real(kind) #kind
#define SORDINO_NAME_network(kind) #kind
#define SORDINO_NAME_boolean(kind) "bool"

/* The class of each kind of field. */
#define SORDINO_CLASS_u8 scalar
#define SORDINO_CLASS_u8x scalar
#define SORDINO_CLASS_u8n network
#define SORDINO_CLASS_u16 scalar
#define SORDINO_CLASS_u16x scalar
#define SORDINO_CLASS_u16n network
#define SORDINO_CLASS_u32 scalar
#define SORDINO_CLASS_u32x scalar
#define SORDINO_CLASS_u32n network
#define SORDINO_CLASS_u64 scalar
#define SORDINO_CLASS_u64x scalar
#define SORDINO_CLASS_u64n network
#define SORDINO_CLASS_i8 scalar
#define SORDINO_CLASS_i8x scalar
#define SORDINO_CLASS_i8n network
#define SORDINO_CLASS_i16 scalar
#define SORDINO_CLASS_i16x scalar
#define SORDINO_CLASS_i16n network
#define SORDINO_CLASS_i32 scalar
#define SORDINO_CLASS_i32x scalar
#define SORDINO_CLASS_i32n network
#define SORDINO_CLASS_i64 scalar
#define SORDINO_CLASS_i64x scalar
#define SORDINO_CLASS_i64n network
#define SORDINO_CLASS_f32 real
#define SORDINO_CLASS_f64 real
#define SORDINO_CLASS_boolean boolean
#define SORDINO_CLASS_enumeration enumeration
#define SORDINO_CLASS_string string
#define SORDINO_CLASS_array array
#define SORDINO_CLASS_sequence sequence
#define SORDINO_CLASS_blob blob

/* The type of each kind of scalar. */
#define SORDINO_TYPE_u8 uint8_t
#define SORDINO_TYPE_u8x uint8_t
#define SORDINO_TYPE_u8n uint8_t
#define SORDINO_TYPE_u16 uint16_t
#define SORDINO_TYPE_u16x uint16_t
#define SORDINO_TYPE_u16n uint16_t
#define SORDINO_TYPE_u32 uint32_t
#define SORDINO_TYPE_u32x uint32_t
#define SORDINO_TYPE_u32n uint32_t
#define SORDINO_TYPE_u64 uint64_t
#define SORDINO_TYPE_u64x uint64_t
#define SORDINO_TYPE_u64n uint64_t
#define SORDINO_TYPE_i8 int8_t
#define SORDINO_TYPE_i8x int8_t
#define SORDINO_TYPE_i8n int8_t
#define SORDINO_TYPE_i16 int16_t
#define SORDINO_TYPE_i16x int16_t
#define SORDINO_TYPE_i16n int16_t
#define SORDINO_TYPE_i32 int32_t
#define SORDINO_TYPE_i32x int32_t
#define SORDINO_TYPE_i32n int32_t
#define SORDINO_TYPE_i64 int64_t
#define SORDINO_TYPE_i64x int64_t
#define SORDINO_TYPE_i64n int64_t
#define SORDINO_TYPE_f32 float
#define SORDINO_TYPE_f64 double
#define SORDINO_TYPE_boolean bool

/* The size of each kind of scalar whose bytes are those of its word, in bytes. */
#define SORDINO_BYTES_u8 1
#define SORDINO_BYTES_u8x 1
#define SORDINO_BYTES_u16 2
#define SORDINO_BYTES_u16x 2
#define SORDINO_BYTES_u32 4
#define SORDINO_BYTES_u32x 4
#define SORDINO_BYTES_u64 8
#define SORDINO_BYTES_u64x 8
#define SORDINO_BYTES_i8 1
#define SORDINO_BYTES_i8x 1
#define SORDINO_BYTES_i16 2
#define SORDINO_BYTES_i16x 2
#define SORDINO_BYTES_i32 4
#define SORDINO_BYTES_i32x 4
#define SORDINO_BYTES_i64 8
#define SORDINO_BYTES_i64x 8
#define SORDINO_BYTES_f32 4
#define SORDINO_BYTES_f64 8
#define SORDINO_BYTES_boolean 1

/* Helpers for the preprocessor. */
#define SORDINO_PASTE(a, b) SORDINO_PASTE_(a, b)
#define SORDINO_PASTE_(a, b) a##b
#define SORDINO_OF(prefix, kind) SORDINO_PASTE(prefix, SORDINO_CLASS_##kind)
/* SORDINO_CHOICE(prefix, key, otherwise): the text behind "~, " in the macro of that name; 'otherwise' if there is
 * none. */
#define SORDINO_CHOICE(prefix, key, otherwise) SORDINO_CHOSEN(SORDINO_PASTE(prefix, key), otherwise, unused)
#define SORDINO_CHOSEN(...) SORDINO_CHOSEN_(__VA_ARGS__)
#define SORDINO_CHOSEN_(first, chosen, ...) chosen
#define SORDINO_LEVEL(...) SORDINO_LEVEL_(__VA_ARGS__)
#define SORDINO_LEVEL_(level, ...) (level)

/* SORDINO_COUNT(level, fields...): the number of fields. */
#define SORDINO_COUNT(...) SORDINO_COUNT_(__VA_ARGS__, \
    48, 47, 46, 45, 44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, \
    21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, unused)
#define SORDINO_COUNT_(level, \
    f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23, \
    f24, f25, f26, f27, f28, f29, f30, f31, f32, f33, f34, f35, f36, f37, f38, f39, f40, f41, f42, f43, f44, \
    f45, f46, f47, f48, n, ...) n

/* SORDINO_EACH(count, m, level, fields...): m applied to each of 'count' fields. */
#define SORDINO_EACH(count, m, ...) SORDINO_PASTE(SORDINO_EACH_, count)(m, __VA_ARGS__)
#define SORDINO_EACH_0(m, level)
#define SORDINO_EACH_1(m, level, f) m f
#define SORDINO_EACH_2(m, level, f, ...) m f SORDINO_EACH_1(m, level, __VA_ARGS__)
#define SORDINO_EACH_3(m, level, f, ...) m f SORDINO_EACH_2(m, level, __VA_ARGS__)
#define SORDINO_EACH_4(m, level, f, ...) m f SORDINO_EACH_3(m, level, __VA_ARGS__)
#define SORDINO_EACH_5(m, level, f, ...) m f SORDINO_EACH_4(m, level, __VA_ARGS__)
#define SORDINO_EACH_6(m, level, f, ...) m f SORDINO_EACH_5(m, level, __VA_ARGS__)
#define SORDINO_EACH_7(m, level, f, ...) m f SORDINO_EACH_6(m, level, __VA_ARGS__)
#define SORDINO_EACH_8(m, level, f, ...) m f SORDINO_EACH_7(m, level, __VA_ARGS__)
#define SORDINO_EACH_9(m, level, f, ...) m f SORDINO_EACH_8(m, level, __VA_ARGS__)
#define SORDINO_EACH_10(m, level, f, ...) m f SORDINO_EACH_9(m, level, __VA_ARGS__)
#define SORDINO_EACH_11(m, level, f, ...) m f SORDINO_EACH_10(m, level, __VA_ARGS__)
#define SORDINO_EACH_12(m, level, f, ...) m f SORDINO_EACH_11(m, level, __VA_ARGS__)
#define SORDINO_EACH_13(m, level, f, ...) m f SORDINO_EACH_12(m, level, __VA_ARGS__)
#define SORDINO_EACH_14(m, level, f, ...) m f SORDINO_EACH_13(m, level, __VA_ARGS__)
#define SORDINO_EACH_15(m, level, f, ...) m f SORDINO_EACH_14(m, level, __VA_ARGS__)
#define SORDINO_EACH_16(m, level, f, ...) m f SORDINO_EACH_15(m, level, __VA_ARGS__)
#define SORDINO_EACH_17(m, level, f, ...) m f SORDINO_EACH_16(m, level, __VA_ARGS__)
#define SORDINO_EACH_18(m, level, f, ...) m f SORDINO_EACH_17(m, level, __VA_ARGS__)
#define SORDINO_EACH_19(m, level, f, ...) m f SORDINO_EACH_18(m, level, __VA_ARGS__)
#define SORDINO_EACH_20(m, level, f, ...) m f SORDINO_EACH_19(m, level, __VA_ARGS__)
#define SORDINO_EACH_21(m, level, f, ...) m f SORDINO_EACH_20(m, level, __VA_ARGS__)
#define SORDINO_EACH_22(m, level, f, ...) m f SORDINO_EACH_21(m, level, __VA_ARGS__)
#define SORDINO_EACH_23(m, level, f, ...) m f SORDINO_EACH_22(m, level, __VA_ARGS__)
#define SORDINO_EACH_24(m, level, f, ...) m f SORDINO_EACH_23(m, level, __VA_ARGS__)
#define SORDINO_EACH_25(m, level, f, ...) m f SORDINO_EACH_24(m, level, __VA_ARGS__)
#define SORDINO_EACH_26(m, level, f, ...) m f SORDINO_EACH_25(m, level, __VA_ARGS__)
#define SORDINO_EACH_27(m, level, f, ...) m f SORDINO_EACH_26(m, level, __VA_ARGS__)
#define SORDINO_EACH_28(m, level, f, ...) m f SORDINO_EACH_27(m, level, __VA_ARGS__)
#define SORDINO_EACH_29(m, level, f, ...) m f SORDINO_EACH_28(m, level, __VA_ARGS__)
#define SORDINO_EACH_30(m, level, f, ...) m f SORDINO_EACH_29(m, level, __VA_ARGS__)
#define SORDINO_EACH_31(m, level, f, ...) m f SORDINO_EACH_30(m, level, __VA_ARGS__)
#define SORDINO_EACH_32(m, level, f, ...) m f SORDINO_EACH_31(m, level, __VA_ARGS__)
#define SORDINO_EACH_33(m, level, f, ...) m f SORDINO_EACH_32(m, level, __VA_ARGS__)
#define SORDINO_EACH_34(m, level, f, ...) m f SORDINO_EACH_33(m, level, __VA_ARGS__)
#define SORDINO_EACH_35(m, level, f, ...) m f SORDINO_EACH_34(m, level, __VA_ARGS__)
#define SORDINO_EACH_36(m, level, f, ...) m f SORDINO_EACH_35(m, level, __VA_ARGS__)
#define SORDINO_EACH_37(m, level, f, ...) m f SORDINO_EACH_36(m, level, __VA_ARGS__)
#define SORDINO_EACH_38(m, level, f, ...) m f SORDINO_EACH_37(m, level, __VA_ARGS__)
#define SORDINO_EACH_39(m, level, f, ...) m f SORDINO_EACH_38(m, level, __VA_ARGS__)
#define SORDINO_EACH_40(m, level, f, ...) m f SORDINO_EACH_39(m, level, __VA_ARGS__)
#define SORDINO_EACH_41(m, level, f, ...) m f SORDINO_EACH_40(m, level, __VA_ARGS__)
#define SORDINO_EACH_42(m, level, f, ...) m f SORDINO_EACH_41(m, level, __VA_ARGS__)
#define SORDINO_EACH_43(m, level, f, ...) m f SORDINO_EACH_42(m, level, __VA_ARGS__)
#define SORDINO_EACH_44(m, level, f, ...) m f SORDINO_EACH_43(m, level, __VA_ARGS__)
#define SORDINO_EACH_45(m, level, f, ...) m f SORDINO_EACH_44(m, level, __VA_ARGS__)
#define SORDINO_EACH_46(m, level, f, ...) m f SORDINO_EACH_45(m, level, __VA_ARGS__)
#define SORDINO_EACH_47(m, level, f, ...) m f SORDINO_EACH_46(m, level, __VA_ARGS__)
#define SORDINO_EACH_48(m, level, f, ...) m f SORDINO_EACH_47(m, level, __VA_ARGS__)

#endif /* SORDINO_TRACEPOINT_H */

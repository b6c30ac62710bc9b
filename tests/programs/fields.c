/* Every kind of field, in C and C++. */
#include <limits.h>
#include <math.h>
#include <sordino/tracepoint.h>
#include <stdlib.h>

enum state { IDLE, RUNNING = 5 };

SORDINO_LABELS(states, (IDLE, "idle"), (RUNNING, "running"), (100, 199, "vendor"), (-3, -1, "broken"))

SORDINO_TRACEPOINT(fields, least, SORDINO_INFO,
    (u8, a), (u16, b), (u32, c), (u64, d), (i8, e), (i16, f), (i32, g), (i64, h))
SORDINO_TRACEPOINT(fields, most, SORDINO_INFO,
    (u8, a), (u16, b), (u32, c), (u64, d), (i8, e), (i16, f), (i32, g), (i64, h))
SORDINO_TRACEPOINT(fields, hexadecimal, SORDINO_INFO,
    (u8x, a), (u16x, b), (u32x, c), (u64x, d), (i8x, e), (i16x, f), (i32x, g), (i64x, h))
SORDINO_TRACEPOINT(fields, network, SORDINO_INFO,
    (u8n, a), (u16n, b), (u32n, c), (u64n, d), (i8n, e), (i16n, f), (i32n, g), (i64n, h))
SORDINO_TRACEPOINT(fields, real, SORDINO_INFO, (f32, single), (f64, twice), (f64, infinite), (boolean, yes), (boolean, no))
SORDINO_TRACEPOINT(fields, labels, SORDINO_INFO,
    (enumeration, states, u8, idle), (enumeration, states, i32, running), (enumeration, states, u16, vendor),
    (enumeration, states, i8, broken), (enumeration, states, u64, nameless))
SORDINO_TRACEPOINT(fields, text, SORDINO_INFO, (string, empty), (string, none), (string, some), (u8, behind))
SORDINO_TRACEPOINT(fields, arrays, SORDINO_INFO,
    (array, u32, numbers, 3), (array, i16x, codes, 2), (array, f64, reals, 2), (array, u16n, ports, 2), (array, boolean, flags, 2))
SORDINO_TRACEPOINT(fields, sequences, SORDINO_INFO,
    (sequence, u32, empty), (sequence, i64, numbers), (sequence, f32, reals), (blob, bytes), (blob, no_bytes), (u8, behind))
SORDINO_TRACEPOINT(fields, forty_eight, SORDINO_INFO,
    (u8, f1), (u8, f2), (u8, f3), (u8, f4), (u8, f5), (u8, f6), (u8, f7), (u8, f8), (u8, f9), (u8, f10), (u8, f11), (u8, f12),
    (u8, f13), (u8, f14), (u8, f15), (u8, f16), (u8, f17), (u8, f18), (u8, f19), (u8, f20), (u8, f21), (u8, f22), (u8, f23),
    (u8, f24), (u8, f25), (u8, f26), (u8, f27), (u8, f28), (u8, f29), (u8, f30), (u8, f31), (u8, f32), (u8, f33), (u8, f34),
    (u8, f35), (u8, f36), (u8, f37), (u8, f38), (u8, f39), (u8, f40), (u8, f41), (u8, f42), (u8, f43), (u8, f44), (u8, f45),
    (u8, f46), (u8, f47), (u8, f48))
SORDINO_TRACEPOINT(fields, none, SORDINO_INFO)
SORDINO_TRACEPOINT(fields, emergency, SORDINO_EMERGENCY, (u8, level))
SORDINO_TRACEPOINT(fields, debug, SORDINO_DEBUG, (u8, level))

int main(void)
{
    const uint32_t numbers[] = {1, 2, UINT32_MAX};
    const int16_t codes[] = {-1, 0x1234};
    const double reals[] = {0.5, -2.25};
    const float singles[] = {1.5f};
    const uint16_t ports[] = {80, 443};
    const bool flags[] = {true, false};
    const int64_t wide[] = {INT64_MIN, INT64_MAX};
    const unsigned char bytes[] = {0xde, 0xad, 0x00, 0xef};

    sordino_tracepoint(fields, least, 0, 0, 0, 0, INT8_MIN, INT16_MIN, INT32_MIN, INT64_MIN);
    sordino_tracepoint(fields, most, UINT8_MAX, UINT16_MAX, UINT32_MAX, UINT64_MAX, INT8_MAX, INT16_MAX, INT32_MAX, INT64_MAX);
    sordino_tracepoint(fields, hexadecimal, 0xab, 0xabcd, 0xabcdef01, 0xabcdef0123456789, -1, -2, -3, -4);
    sordino_tracepoint(fields, network, 1, 0x0102, 0x01020304, 0x0102030405060708, -1, -2, -3, -4);
    sordino_tracepoint(fields, real, 0.25f, -1e100, (double)INFINITY, true, false);
    sordino_tracepoint(fields, labels, IDLE, RUNNING, 150, -2, 77);
    sordino_tracepoint(fields, text, "", NULL, "with \"quotes\" and \\", 7);
    sordino_tracepoint(fields, arrays, numbers, codes, reals, ports, flags);
    sordino_tracepoint(fields, sequences, NULL, 0, wide, 2, singles, 1, bytes, sizeof bytes, NULL, 0, 9);
    sordino_tracepoint(fields, forty_eight, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
        25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48);
    sordino_tracepoint(fields, none);
    sordino_tracepoint(fields, emergency, 0);
    sordino_tracepoint(fields, debug, 14);
    return 0;
}

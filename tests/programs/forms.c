/* A tracepoint for each form of its hits: scalars in registers, a string with scalars around it, any other. With an
 * argument, waits until their conditions are inline filters, which recorders set a moment after the program has
 * started. */
#include <sordino/tracepoint.h>
#include <stdlib.h>
#include <unistd.h>

SORDINO_LABELS(levels, (-7, "low"))

SORDINO_TRACEPOINT(forms, v, SORDINO_INFO, (i8, a))
SORDINO_TRACEPOINT(forms, vv, SORDINO_INFO, (i32, a), (u16, b))
SORDINO_TRACEPOINT(forms, vvv, SORDINO_INFO, (boolean, a), (i64, b), (enumeration, levels, i16, c))
SORDINO_TRACEPOINT(forms, words, SORDINO_INFO, (u64, a), (i64, b))
SORDINO_TRACEPOINT(forms, three_words, SORDINO_INFO, (u64, a), (f64, b), (i64, c))
SORDINO_TRACEPOINT(forms, sixteen, SORDINO_INFO, (f32, a), (i32, b), (u64, c))
SORDINO_TRACEPOINT(forms, s, SORDINO_INFO, (string, a))
SORDINO_TRACEPOINT(forms, sv, SORDINO_INFO, (string, a), (i32, b))
SORDINO_TRACEPOINT(forms, vs, SORDINO_INFO, (i16, a), (string, b))
SORDINO_TRACEPOINT(forms, svv, SORDINO_INFO, (string, a), (u8, b), (i64, c))
SORDINO_TRACEPOINT(forms, vsv, SORDINO_INFO, (i8, a), (string, b), (i32, c))
SORDINO_TRACEPOINT(forms, vvs, SORDINO_INFO, (u64, a), (i8, b), (string, c))
SORDINO_TRACEPOINT(forms, network, SORDINO_INFO, (u64n, a), (i64n, b))
SORDINO_TRACEPOINT(forms, vsx, SORDINO_INFO, (i8, a), (string, b), (u16n, c))
SORDINO_TRACEPOINT(forms, ss, SORDINO_INFO, (string, a), (string, b), (i32, c))

#define IS_NOT_INLINED(name) (sordino_enabled(forms, name) && !(SORDINO_ENABLED(sordino_point_forms_##name) & SORDINO_INLINE_FILTER))

int main(int argc, char **argv)
{
    (void)argv;
    while (argc > 1 && (IS_NOT_INLINED(vvv) || IS_NOT_INLINED(words) || IS_NOT_INLINED(network)))
        usleep(1000);
    /* The stores before and after each hit have to stay in their places. */
    char *const text = (char *)malloc(16);
    if (text == NULL)
        return 1;
    sordino_tracepoint(forms, v, -1);
    sordino_tracepoint(forms, vv, -2, 0xfffe);
    sordino_tracepoint(forms, vvv, true, -3, -7);
    sordino_tracepoint(forms, words, UINT64_MAX, -4);
    sordino_tracepoint(forms, three_words, 5, -0.5, -5);
    sordino_tracepoint(forms, sixteen, -1.5f, -6, 6);
    strcpy(text, "one");
    sordino_tracepoint(forms, s, text);
    strcpy(text, "two");
    sordino_tracepoint(forms, sv, text, -8);
    strcpy(text, "three");
    sordino_tracepoint(forms, vs, -9, text);
    strcpy(text, "four");
    sordino_tracepoint(forms, svv, text, 200, INT64_MIN);
    strcpy(text, "");
    sordino_tracepoint(forms, vsv, -128, text, -11);
    strcpy(text, "six");
    sordino_tracepoint(forms, vvs, 12, -12, text);
    sordino_tracepoint(forms, network, 13, -13);
    strcpy(text, "seven");
    sordino_tracepoint(forms, vsx, -14, text, 443);
    strcpy(text, "eight");
    sordino_tracepoint(forms, ss, text, NULL, -15);
    strcpy(text, "too late");
    free(text);
    return 0;
}

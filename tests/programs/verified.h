/* Contents of records that verify themselves; tests/src/verified.rs computes the same. */
#ifndef VERIFIED_H
#define VERIFIED_H

#include <stdint.h>

/* Length of a record of two words, which has no fill. */
#define NO_FILL UINT32_MAX

/* Finaliser of MurmurHash3. */
static inline uint64_t mixed(uint64_t word)
{
    word += 0x9e3779b97f4a7c15;
    word = (word ^ word >> 33) * 0xff51afd7ed558ccd;
    word = (word ^ word >> 33) * 0xc4ceb9fe1a85ec53;
    return word ^ word >> 33;
}

/* Returns the fill's length in bytes for a record with this check: every other record has none, most have up to 300,
 * some have thousands, and a few have more than the smallest sub-buffer takes. */
static inline uint32_t length_of(uint64_t check)
{
    if (check & 1)
        return NO_FILL;
    if (check >> 1 & 127)
        return (uint32_t)(check >> 16) % 301;
    return (uint32_t)(check >> 16) % 20001;
}

static inline void fill_with(uint8_t *fill, uint32_t length, uint64_t check)
{
    for (uint32_t i = 0; i < length; i++)
        fill[i] = (uint8_t)(check >> i % 8 * 8) ^ (uint8_t)i;
}

#endif

/* CRC-32C (Castagnoli, reflected polynomial 0x82f63b78): by the processor's own instruction where
 * it has one, else by tables. One object file includes this. */
#ifndef TFREC_CRC32C_H
#define TFREC_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* In assembly, because compilers differ in what they want to be told before they accept the
 * intrinsics in a file that must also run where the instruction is missing. */
#if defined(__x86_64__)
#include <cpuid.h>
#define CRC_HARDWARE
static inline uint64_t crc_step64(uint64_t state, uint64_t word) {
    __asm__("crc32q %1, %0" : "+r"(state) : "r"(word));
    return state;
}
static inline uint32_t crc_step8(uint32_t state, uint8_t byte) {
    __asm__("crc32b %1, %0" : "+r"(state) : "r"(byte));
    return state;
}
#elif defined(__aarch64__)
#define CRC_HARDWARE
#if defined(__linux__)
#include <sys/auxv.h>
#endif
static inline uint64_t crc_step64(uint64_t state, uint64_t word) {
    uint32_t next;
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w1, %x2"
            : "=r"(next) : "r"((uint32_t)state), "r"(word));
    return next;
}
static inline uint32_t crc_step8(uint32_t state, uint8_t byte) {
    uint32_t next;
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w1, %w2"
            : "=r"(next) : "r"(state), "r"((uint32_t)byte));
    return next;
}
#endif

/* crc_table[k][b]: what byte b, followed by k zero bytes, adds to the state. */
static uint32_t crc_table[8][256];

static uint32_t crc_update_table(uint32_t state, const uint8_t *data, size_t size) {
    while (size >= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        word ^= state;
        state = 0;
        for (int k = 0; k < 8; k++)
            state ^= crc_table[7 - k][(word >> (8 * k)) & 0xff];
        data += 8;
        size -= 8;
    }
    while (size--)
        state = (state >> 8) ^ crc_table[0][(state ^ *data++) & 0xff];
    return state;
}

static uint32_t (*crc_update)(uint32_t, const uint8_t *, size_t) = crc_update_table;

#ifdef CRC_HARDWARE
/* The instruction takes three cycles but one may start each cycle: so three stretches of `LONG`
 * or `SHORT` bytes run side by side, and their states are joined by shifting them over zeros. */
#define CRC_LONG 1024
#define CRC_SHORT 128
static uint32_t crc_shift_long[4][256], crc_shift_short[4][256];

static inline uint32_t crc_shift(uint32_t table[4][256], uint32_t state) {
    return table[0][state & 0xff] ^ table[1][(state >> 8) & 0xff] ^
           table[2][(state >> 16) & 0xff] ^ table[3][state >> 24];
}

static inline uint64_t crc_word(const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, 8);
    return word;
}

static inline uint32_t crc_three(uint32_t state, const uint8_t *data, size_t stretch,
                                 uint32_t table[4][256]) {
    uint64_t a = state, b = 0, c = 0;
    for (size_t i = 0; i < stretch; i += 8) {
        /* The processor foresees one stretch from memory, not three of them. */
        __builtin_prefetch(data + 3 * (stretch + i));
        a = crc_step64(a, crc_word(data + i));
        b = crc_step64(b, crc_word(data + stretch + i));
        c = crc_step64(c, crc_word(data + 2 * stretch + i));
    }
    state = crc_shift(table, (uint32_t)a) ^ (uint32_t)b;
    return crc_shift(table, state) ^ (uint32_t)c;
}

static uint32_t crc_update_hardware(uint32_t state, const uint8_t *data, size_t size) {
    for (; size >= 3 * CRC_LONG; data += 3 * CRC_LONG, size -= 3 * CRC_LONG)
        state = crc_three(state, data, CRC_LONG, crc_shift_long);
    for (; size >= 3 * CRC_SHORT; data += 3 * CRC_SHORT, size -= 3 * CRC_SHORT)
        state = crc_three(state, data, CRC_SHORT, crc_shift_short);
    uint64_t wide = state;
    for (; size >= 8; data += 8, size -= 8)
        wide = crc_step64(wide, crc_word(data));
    state = (uint32_t)wide;
    while (size--)
        state = crc_step8(state, *data++);
    return state;
}

static int crc_hardware_present(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2);
#elif defined(__APPLE__)
    return 1;
#elif defined(__linux__)
    return (getauxval(AT_HWCAP) & (1UL << 7)) != 0; /* HWCAP_CRC32 */
#else
    return 0;
#endif
}

/* The state is linear in its bits: shift each of the 32 over `zeros` bytes and add them up. */
static void crc_fill_shift(uint32_t table[4][256], size_t zeros) {
    static const uint8_t nothing[CRC_LONG];
    uint32_t bit[32];
    for (int i = 0; i < 32; i++)
        bit[i] = crc_update_table((uint32_t)1 << i, nothing, zeros);
    for (int k = 0; k < 4; k++)
        for (int byte = 0; byte < 256; byte++) {
            table[k][byte] = 0;
            for (int i = 0; i < 8; i++)
                if (byte >> i & 1)
                    table[k][byte] ^= bit[8 * k + i];
        }
}
#endif

/* To be called once, before any other function here. */
static void crc_init(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t state = byte;
        for (int i = 0; i < 8; i++)
            state = (state >> 1) ^ (state & 1 ? 0x82f63b78u : 0);
        crc_table[0][byte] = state;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t state = crc_table[k - 1][byte];
            crc_table[k][byte] = (state >> 8) ^ crc_table[0][state & 0xff];
        }
#ifdef CRC_HARDWARE
    if (crc_hardware_present()) {
        crc_fill_shift(crc_shift_long, CRC_LONG);
        crc_fill_shift(crc_shift_short, CRC_SHORT);
        crc_update = crc_update_hardware;
    }
#endif
}

/* The checksum as TFRecord stores it: rotated, then a constant added. */
static inline uint32_t crc_mask(uint32_t state) {
    uint32_t crc = ~state;
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static inline uint32_t crc_masked(const uint8_t *data, size_t size) {
    return crc_mask(crc_update(~(uint32_t)0, data, size));
}

#endif

/* Where the rows of CSV lie. The rules are those of `_csv_reference.py`, its twin in Python. */
#ifndef TFREC_CSV_H
#define TFREC_CSV_H

#include <string.h>

#include "_offsets.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Bytes that matter: each is -1 where the dialect has none. */
typedef struct {
    int delimiter, quote, escape;
    int single; /* rows have one column: a blank line is a row */
    int final;  /* the end of the buffer ends a row */
} CsvRules;

typedef struct {
    int64_t *starts, *ends, *lines; /* room for as many rows as `csv_max_rows` says */
    int64_t rows;
    Offsets stray;
    int64_t row_start, row_line; /* the row that was begun */
    int64_t line;                /* line ends met so far */
    int64_t blank;
    int64_t skip;     /* events before this offset are text */
    int64_t literal;  /* a quote here follows an escaped byte, and opens nothing */
    int64_t open;     /* offset of the quote that opened the field, or -1 */
    int loose; /* the open field has a stray quote, and ends with its line */
    int is_stray, quoted, done, out_of_memory;
} CsvWalk;

/* One bit for each of 64 bytes: set where it is a quote, an escape or part of a line end. */
typedef struct {
    uint64_t events, quotes;
} CsvMask;

#if defined(__SSE2__)
static inline CsvMask csv_mask(const uint8_t *data, const CsvRules *rules) {
    const __m128i lf = _mm_set1_epi8('\n'), cr = _mm_set1_epi8('\r');
    const __m128i quote = _mm_set1_epi8((char)rules->quote);
    const __m128i escape = _mm_set1_epi8((char)(rules->escape < 0 ? '\n' : rules->escape));
    CsvMask mask = {0, 0};
    for (int i = 0; i < 4; i++) {
        __m128i block = _mm_loadu_si128((const __m128i *)(data + 16 * i));
        __m128i quotes = _mm_cmpeq_epi8(block, quote);
        __m128i ends = _mm_or_si128(_mm_cmpeq_epi8(block, lf), _mm_cmpeq_epi8(block, cr));
        __m128i other = _mm_or_si128(ends, _mm_cmpeq_epi8(block, escape));
        mask.quotes |= (uint64_t)(uint32_t)_mm_movemask_epi8(quotes) << (16 * i);
        mask.events |= (uint64_t)(uint32_t)_mm_movemask_epi8(other) << (16 * i);
    }
    mask.quotes = rules->quote < 0 ? 0 : mask.quotes;
    mask.events |= mask.quotes;
    return mask;
}
#elif defined(__aarch64__)
static inline uint64_t neon_bits(const uint8x16_t part[4]) {
    const uint8x16_t weight = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t low = vpaddq_u8(vandq_u8(part[0], weight), vandq_u8(part[1], weight));
    uint8x16_t high = vpaddq_u8(vandq_u8(part[2], weight), vandq_u8(part[3], weight));
    uint8x16_t sum = vpaddq_u8(low, high);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sum, sum)), 0);
}

static inline CsvMask csv_mask(const uint8_t *data, const CsvRules *rules) {
    const uint8x16_t lf = vdupq_n_u8('\n'), cr = vdupq_n_u8('\r');
    const uint8x16_t quote = vdupq_n_u8((uint8_t)rules->quote);
    const uint8x16_t escape = vdupq_n_u8((uint8_t)(rules->escape < 0 ? '\n' : rules->escape));
    uint8x16_t quotes[4], other[4];
    for (int i = 0; i < 4; i++) {
        uint8x16_t block = vld1q_u8(data + 16 * i);
        quotes[i] = vceqq_u8(block, quote);
        other[i] = vorrq_u8(vceqq_u8(block, escape),
                            vorrq_u8(vceqq_u8(block, lf), vceqq_u8(block, cr)));
    }
    CsvMask mask = {neon_bits(other), rules->quote < 0 ? 0 : neon_bits(quotes)};
    mask.events |= mask.quotes;
    return mask;
}
#else
static inline CsvMask csv_mask(const uint8_t *data, const CsvRules *rules) {
    CsvMask mask = {0, 0};
    for (int i = 0; i < 64; i++) {
        int byte = data[i];
        mask.quotes |= (uint64_t)(byte == rules->quote) << i;
        mask.events |=
            (uint64_t)(byte == '\n' || byte == '\r' || byte == rules->escape) << i;
    }
    mask.events |= mask.quotes;
    return mask;
}
#endif

/* No more rows than line ends, and one at the end of the buffer. */
static int64_t csv_max_rows(const uint8_t *data, int64_t size) {
    int64_t count = 1;
    for (int64_t base = 0; base < size; base += 128) {
        int64_t stop = size - base < 128 ? size - base : 128;
        uint8_t few = 0; /* so narrow that the compiler counts many bytes at once */
        for (int64_t i = 0; i < stop; i++)
            few = (uint8_t)(few + (data[base + i] == '\n') + (data[base + i] == '\r'));
        count += few;
    }
    return count;
}

/* The begun row ends at `end`; the next begins at `following`. */
static void csv_row(CsvWalk *walk, const CsvRules *rules, int64_t end, int64_t following) {
    if (end > walk->row_start || rules->single) {
        if (walk->is_stray && offsets_push(&walk->stray, walk->rows))
            walk->out_of_memory = walk->done = 1;
        walk->starts[walk->rows] = walk->row_start;
        walk->ends[walk->rows] = end;
        walk->lines[walk->rows] = walk->row_line;
        walk->rows++;
    } else {
        walk->blank++;
    }
    walk->row_start = following;
    walk->row_line = walk->line;
    walk->is_stray = 0;
}

static void csv_line_end(CsvWalk *walk, const CsvRules *rules, const uint8_t *data, int64_t size,
                         int64_t at) {
    int is_cr = data[at] == '\r';
    walk->line += is_cr || at == 0 || data[at - 1] != '\r';
    if (at < walk->skip || (walk->open >= 0 && !walk->loose))
        return;
    walk->open = -1;
    if (is_cr && at + 1 == size && !rules->final) {
        walk->done = 1; /* a line feed may follow */
        return;
    }
    walk->skip = at + 1 + (is_cr && at + 1 < size && data[at + 1] == '\n');
    csv_row(walk, rules, at, walk->skip);
}

static void csv_quote(CsvWalk *walk, const CsvRules *rules, const uint8_t *data, int64_t size,
                      int64_t at) {
    if (walk->open < 0) {
        int at_field = at == walk->row_start ||
                       (data[at - 1] == rules->delimiter && at != walk->literal);
        walk->open = at_field ? at : -1;
        walk->loose = 0;
        return;
    }
    int next = at + 1 < size ? data[at + 1] : -1;
    if (next == rules->quote)
        walk->skip = at + 2;
    else if (next < 0 || next == '\r' || next == '\n' || next == rules->delimiter)
        walk->open = -1;
    else
        walk->is_stray = walk->loose = 1;
}

static void csv_event(CsvWalk *walk, const CsvRules *rules, const uint8_t *data, int64_t size,
                      int64_t at) {
    int byte = data[at];
    if (byte == '\n' || byte == '\r') {
        csv_line_end(walk, rules, data, size, at);
    } else if (at >= walk->skip) {
        int opens = byte == rules->quote && at == walk->row_start;
        if (byte == rules->escape && !opens)
            walk->skip = walk->literal = at + 2;
        else
            csv_quote(walk, rules, data, size, at);
    }
}

/* Walk over all of `data`, from one byte that matters to the next. The caller frees `stray`. */
static void csv_split(CsvWalk *walk, const CsvRules *rules, const uint8_t *data, int64_t size) {
    walk->open = walk->literal = -1;
    for (int64_t base = 0; base < size && !walk->out_of_memory; base += 64) {
        CsvMask mask;
        if (size - base >= 64) {
            mask = csv_mask(data + base, rules);
        } else {
            uint8_t tail[64] = {0};
            uint64_t valid = ((uint64_t)1 << (size - base)) - 1;
            memcpy(tail, data + base, (size_t)(size - base));
            mask = csv_mask(tail, rules);
            mask.events &= valid;
            mask.quotes &= valid;
        }
        walk->quoted |= mask.quotes != 0;
        for (uint64_t bits = mask.events; bits && !walk->done; bits &= bits - 1)
            csv_event(walk, rules, data, size, base + __builtin_ctzll(bits));
    }
    if (walk->loose)
        walk->open = -1;
    if (rules->final && walk->open < 0 && walk->row_start < size && !walk->done)
        csv_row(walk, rules, size, size);
    if (!rules->final)
        walk->open = -1;
}

#endif

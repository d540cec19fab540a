/* What text cells mean, in one pass. The grammar is written down in `tfrec_cli/schema/grammar.py`,
 * and `tfrec_cli/schema/cells.py` reads it cell by cell as is done here, for all dialects; this is
 * for its plain one: `.` as the decimal mark, no thousands, the usual null words.
 */
#ifndef TFREC_TEXT_H
#define TFREC_TEXT_H

#include "_encode.h"

/* Cells `offset` to `offset + count` of an Arrow string array. */
typedef struct {
    Bytes validity, offsets, data;
    int width; /* bytes of one offset: 4 or 8 */
    int64_t offset, count;
} Cells;

typedef struct {
    const uint8_t *at, *end; /* `at` is NULL where the cell is null */
} Cell;

/* In the order of `cells.Meaning`. */
enum Meaning { NOTHING, EMPTY, WORD, NAN_WORD, TRUTH, INTEGER, FLOAT, SPECIAL, TEXT, MEANINGS };

typedef struct {
    int64_t counts[MEANINGS], firsts[MEANINGS];
} TextFacts;

static int cells_are_sound(const Cells *cells) {
    int64_t stop;
    if (cells->offset < 0 || cells->count < 0 || (cells->width != 4 && cells->width != 8) ||
        __builtin_add_overflow(cells->offset, cells->count, &stop))
        return 0;
    if (cells->count == 0)
        return 1;
    if (cells->validity.data && cells->validity.size < stop / 8 + (stop % 8 > 0))
        return 0;
    return cells->offsets.size / cells->width > stop;
}

/* The cell, or -1 where its offsets lie outside the data. */
static inline int cell_at(const Cells *cells, int64_t i, Cell *cell) {
    int64_t place = cells->offset + i;
    cell->at = cell->end = NULL;
    if (cells->validity.data && !(cells->validity.data[place >> 3] >> (place & 7) & 1))
        return 0;
    int64_t start = load_offset(cells->offsets, cells->width, place);
    int64_t stop = load_offset(cells->offsets, cells->width, place + 1);
    if (start < 0 || stop < start || stop > cells->data.size)
        return -1;
    cell->at = cells->data.data ? cells->data.data + start : (const uint8_t *)"";
    cell->end = cell->at + (stop - start);
    return 0;
}

static inline int is_digit(uint8_t byte) {
    return (uint8_t)(byte - '0') < 10;
}

/* A number taken apart: its digits as an integer, as far as 19 of them go, and the power of ten
 * that they stand for. */
typedef struct {
    const uint8_t *end;
    uint64_t digits;
    int64_t power;
    int sign, count, has_point, has_exponent, has_leading_zero, is_inexact;
} Number;

static inline void take_digits(Number *number, const uint8_t *end, int64_t power) {
    for (; number->end < end && is_digit(*number->end); number->end++) {
        number->count++;
        if (number->digits < UINT64_C(1000000000000000000)) {
            number->digits = 10 * number->digits + (uint64_t)(*number->end - '0');
            number->power += power;
        } else {
            number->is_inexact = 1;
            number->power += power + 1;
        }
    }
}

static inline int take_exponent(Number *number, const uint8_t *end) {
    const uint8_t *at = number->end + 1;
    int64_t value = 0;
    int minus = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    if (at == end || !is_digit(*at))
        return -1;
    for (; at < end && is_digit(*at); at++)
        value = value < 100000 ? 10 * value + (*at - '0') : value;
    number->power += minus ? -value : value;
    number->has_exponent = 1;
    number->end = at;
    return 0;
}

/* Whether all of the cell is a number: FLOAT_PATTERN of the grammar. */
static inline int take_number(Number *number, Cell cell) {
    *number = (Number){.end = cell.at};
    if (cell.at < cell.end && (*cell.at == '-' || *cell.at == '+')) {
        number->sign = *cell.at;
        number->end++;
    }
    const uint8_t *first = number->end;
    take_digits(number, cell.end, 0);
    number->has_leading_zero = number->count > 1 && *first == '0';
    if (number->end < cell.end && *number->end == '.') {
        number->has_point = 1;
        number->end++;
        take_digits(number, cell.end, -1);
    }
    if (!number->count)
        return 0;
    if (number->end < cell.end && (*number->end | 32) == 'e' && take_exponent(number, cell.end))
        return 0;
    return number->end == cell.end;
}

static inline int fits_int64(const Number *number) {
    uint64_t most = (uint64_t)INT64_MAX + (number->sign == '-');
    return !number->is_inexact && number->digits <= most;
}

/* A word of lower-case letters at `word`, in any case. */
static int is_word(Cell cell, const char *word) {
    const uint8_t *at = cell.at;
    for (; *word; word++, at++)
        if (at == cell.end || (*at | 32) != (uint8_t)*word)
            return 0;
    return at == cell.end;
}

static int is_exactly(Cell cell, const char *word) {
    size_t size = strlen(word);
    return (size_t)(cell.end - cell.at) == size && !memcmp(cell.at, word, size);
}

static const char *const NULL_WORDS[] = {
    "NA",   "N/A",  "#N/A", "#NA",  "<NA>", "NULL", "None", "-",    "--",   ".", "?",
    "\\N",  "na",   "n/a",  "#n/a", "#na",  "<na>", "null", "none", "Null", "NONE"};
static const char *const TRUTHS[] = {"true", "True", "TRUE", "false", "False", "FALSE"};

static enum Meaning word_meaning(Cell cell) {
    if (cell.end - cell.at > 9)
        return TEXT;
    for (size_t i = 0; i < sizeof NULL_WORDS / sizeof *NULL_WORDS; i++)
        if (is_exactly(cell, NULL_WORDS[i]))
            return WORD;
    for (size_t i = 0; i < sizeof TRUTHS / sizeof *TRUTHS; i++)
        if (is_exactly(cell, TRUTHS[i]))
            return TRUTH;
    cell.at += *cell.at == '+' || *cell.at == '-';
    if (is_word(cell, "nan"))
        return NAN_WORD;
    return is_word(cell, "inf") || is_word(cell, "infinity") ? SPECIAL : TEXT;
}

static inline enum Meaning cell_meaning(Cell cell) {
    Number number;
    if (!cell.at)
        return NOTHING;
    while (cell.at < cell.end && (*cell.at == ' ' || *cell.at == '\t'))
        cell.at++;
    while (cell.end > cell.at && (cell.end[-1] == ' ' || cell.end[-1] == '\t'))
        cell.end--;
    if (cell.at == cell.end)
        return EMPTY;
    if (!take_number(&number, cell))
        return word_meaning(cell);
    if (number.has_leading_zero)
        return TEXT;
    if (number.has_point || number.has_exponent)
        return FLOAT;
    return number.sign != '+' && fits_int64(&number) ? INTEGER : TEXT;
}

/* Count the cells of each meaning, and find the first of each; -1 for bad offsets. */
static int text_facts(const Cells *cells, TextFacts *facts) {
    memset(facts, 0, sizeof *facts);
    for (int64_t i = 0; i < cells->count; i++) {
        Cell cell;
        if (cell_at(cells, i, &cell))
            return -1;
        enum Meaning meaning = cell_meaning(cell);
        if (!facts->counts[meaning]++)
            facts->firsts[meaning] = i;
    }
    return 0;
}

/* The cells as int64, 0 for null; 1 where one is no bare integer of that range. */
static int text_to_int64(const Cells *cells, uint8_t *out) {
    for (int64_t i = 0; i < cells->count; i++, out += 8) {
        Cell cell;
        Number number = {0};
        if (cell_at(cells, i, &cell))
            return -1;
        if (cell.at && (!take_number(&number, cell) || number.has_point || number.has_exponent ||
                        number.sign == '+' || !fits_int64(&number)))
            return 1;
        uint64_t value = number.sign == '-' ? -number.digits : number.digits;
        memcpy(out, &value, 8);
    }
    return 0;
}

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* The cells as float64, 0 for null; 1 where one is no number, or none that one exact product or
 * quotient gives: an integer below 2^53 and a power of ten up to 22 are float64 without rounding,
 * so that the one rounding of the result is the nearest (W. D. Clinger, 1990). */
static int text_to_float64(const Cells *cells, uint8_t *out) {
    for (int64_t i = 0; i < cells->count; i++, out += 8) {
        Cell cell;
        Number number = {0};
        if (cell_at(cells, i, &cell))
            return -1;
        if (cell.at && (!take_number(&number, cell) || number.is_inexact ||
                        number.digits > UINT64_C(1) << 53 || number.power < -22 || number.power > 22))
            return 1;
        double value = (double)number.digits;
        value = number.power < 0 ? value / POWERS[-number.power] : value * POWERS[number.power];
        value = number.sign == '-' ? -value : value;
        memcpy(out, &value, 8);
    }
    return 0;
}

#endif

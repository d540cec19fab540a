/* The keys of the records read so far, the form that each key's entries are foreseen to have, and
 * what was counted of them. */
#ifndef TFREC_COLUMNS_H
#define TFREC_COLUMNS_H

#include "_examples.h"

/* What the records so far say of one key; the caller sees it as so many int64. Records are given
 * by number, -1 for none. */
typedef struct {
    int64_t present, absent, repeated;
    int64_t kind_records[FOUND_KINDS], kind_first[FOUND_KINDS];
    int64_t fewest, most, values, low, high, bytes, payload;
} Facts;

typedef struct {
    Part key;
    int64_t column;      /* -1 for none */
    int64_t last;        /* the ordinal among Examples of the last one counted */
    int64_t seen, entry; /* the last reading of a record that had it, and where */
    Facts facts;
} Slot;

/* The usual form of an entry, all lengths in one byte, K the key's and S the values':
 *
 *   0a K+8+S 0a K key 12 4+S TAG 2+S 0a S values
 *
 * `sign` and `mask`: as far as the key ends, without the entry's length, of which the mask keeps
 * the top bit, 0. `head`: the six bytes behind the key, were S -4. */
#define SIGNS 4
typedef struct {
    uint64_t sign[SIGNS], mask[SIGNS];
    uint64_t head;
    uint32_t fixed, odd; /* K + 8; the bits that S does not have */
    int32_t next;        /* the column that came behind it last, -1 for none */
    int kind;
    int64_t slot;
} Pattern;

#define HEAD_SPREAD UINT64_C(0x010001000100)
#define HEAD_MASK UINT64_C(0xffffffffffff)
#define SHORT_ENTRY 0x80
/* So many bytes behind the start of an entry in usual form may be read. */
#define SURVEY_SLACK 192

/* One record's integers of a column. */
typedef struct {
    Ints ints;
    int64_t column;
} Touch;

/* `rows`: for the last `filled` Examples, and the one being read, a row with a byte for each of
 * `columns` keys: 0 where it is absent, the entry's length where its form is usual and only that
 * is to be counted yet, and ELSEWHERE. They are counted together. */
#define ROWS 128
#define MOST_COLUMNS 8192
#define ELSEWHERE 0xff
typedef struct {
    uint8_t *rows;
    int64_t width, filled;
    Pattern *patterns;
    Touch *touches;
    int64_t columns, touched;
    int32_t first;
} Grid;

typedef struct {
    Record record;
    Slot *slots;
    int64_t count, room;
    int64_t *hashed; /* slots by the hash of their key, -1 where free; `mask` + 1 of them */
    uint64_t mask;
    Grid grid;
    const uint8_t *limit; /* the end of all records */
    int64_t readings;
    int64_t *ordinals; /* the record of each Example */
    int64_t examples;
    Offsets invalid;
    int64_t sequences, first_sequence;
} Survey;

static int survey_rehash(Survey *survey, uint64_t room) {
    int64_t *hashed = malloc(room * sizeof *hashed);
    if (!hashed)
        return -1;
    for (uint64_t i = 0; i < room; i++)
        hashed[i] = -1;
    for (int64_t s = 0; s < survey->count; s++) {
        uint64_t at = key_hash(survey->slots[s].key) & (room - 1);
        while (hashed[at] >= 0)
            at = (at + 1) & (room - 1);
        hashed[at] = s;
    }
    free(survey->hashed);
    survey->hashed = hashed;
    survey->mask = room - 1;
    return 0;
}

/* The slot of `key`, -1 where it has none; `at`, its place among the hashed. */
static inline int64_t survey_find(const Survey *survey, Part key, uint64_t *at) {
    *at = key_hash(key) & survey->mask;
    for (; survey->hashed[*at] >= 0; *at = (*at + 1) & survey->mask)
        if (same_key(survey->slots[survey->hashed[*at]].key, key))
            break;
    return survey->hashed[*at];
}

/* Counting the rows. */

/* Of sixteen columns: the rows that have each at all, and of those of usual form the number, the
 * least, the greatest and the sum. */
#define FOLD 16
typedef struct {
    uint8_t any[FOLD], usual[FOLD], least[FOLD], most[FOLD];
    uint16_t sum[FOLD];
} Fold;

typedef uint8_t Bytes16 __attribute__((vector_size(FOLD)));
typedef uint16_t Words8 __attribute__((vector_size(FOLD)));

static void cells_fold(const uint8_t *cells, int64_t width, int64_t count, Fold *fold) {
    Bytes16 any = {0}, usual = {0}, cell;
    Signed16 least = {0}, most = {0};
    Words8 even = {0}, odd = {0};
    least = ~most ^ INT8_MIN;
    for (int64_t r = 0; r < count; r++) {
        memcpy(&cell, cells + r * width, sizeof cell);
        any -= (Bytes16)(cell != 0);
        Signed16 size = (Signed16)cell & ~((Signed16)cell < 0), none = size == 0;
        usual -= (Bytes16)~none;
        Signed16 some = size | (none & INT8_MAX), less = some < least, more = size > most;
        least = (some & less) | (least & ~less);
        most = (size & more) | (most & ~more);
        even += (Words8)size & 0xff;
        odd += (Words8)size >> 8;
    }
    memcpy(fold->any, &any, sizeof any);
    memcpy(fold->usual, &usual, sizeof usual);
    memcpy(fold->least, &least, sizeof least);
    memcpy(fold->most, &most, sizeof most);
    for (int i = 0; i < FOLD; i += 2) {
        fold->sum[i] = even[i / 2];
        fold->sum[i + 1] = odd[i / 2];
    }
}

static int64_t first_usual(const Grid *grid, int64_t column) {
    int64_t r = 0;
    for (uint8_t size; size = grid->rows[r * grid->width + column], !size || size >= SHORT_ENTRY;)
        r++;
    return r;
}

/* Which of the rows, which start with the Example `first`, have the column. */
static void column_presence(const Survey *survey, int64_t column, int64_t first, int64_t any) {
    const Grid *grid = &survey->grid;
    Slot *slot = &survey->slots[grid->patterns[column].slot];
    const uint8_t *cells = grid->rows + column;
    int64_t gap = 0, last = grid->filled - 1;
    slot->facts.present += any;
    if (slot->facts.absent < 0 && (any < grid->filled || slot->last < first - 1)) {
        while (gap < grid->filled && cells[gap * grid->width])
            gap++;
        if (slot->last < first - 1)
            slot->facts.absent = survey->ordinals[slot->last + 1];
        else if (gap < grid->filled)
            slot->facts.absent = survey->ordinals[first + gap];
    }
    while (!cells[last * grid->width])
        last--;
    slot->last = first + last;
}

static inline void facts_values(Facts *facts, int64_t fewest, int64_t most, int64_t values) {
    /* As unsigned, -1 for none is more than any. */
    facts->fewest = (uint64_t)fewest < (uint64_t)facts->fewest ? fewest : facts->fewest;
    facts->most = most > facts->most ? most : facts->most;
    facts->values += values;
}

/* The entries of usual form in the rows. */
static void column_usual(const Survey *survey, int64_t column, int64_t first, const Fold *fold) {
    const Grid *grid = &survey->grid;
    const Pattern *pattern = &grid->patterns[column];
    Facts *facts = &survey->slots[pattern->slot].facts;
    int64_t i = column % FOLD, count = fold->usual[i], fixed = pattern->fixed, sum = fold->sum[i];
    int64_t *kind_first = &facts->kind_first[pattern->kind];
    if (*kind_first < 0 || *kind_first > survey->ordinals[first]) {
        int64_t number = survey->ordinals[first + first_usual(grid, column)];
        *kind_first = (uint64_t)number < (uint64_t)*kind_first ? number : *kind_first;
    }
    facts->kind_records[pattern->kind] += count;
    facts->bytes += sum + 2 * count;
    facts->payload += sum - fixed * count;
    if (pattern->kind == FOUND_BYTES)
        facts_values(facts, 1, 1, count);
    else if (pattern->kind == FOUND_FLOAT)
        facts_values(facts, (fold->least[i] - fixed) / 4, (fold->most[i] - fixed) / 4,
                     (sum - fixed * count) / 4);
}

static void survey_flush(Survey *survey) {
    Grid *grid = &survey->grid;
    int64_t first = survey->examples - grid->filled;
    Fold fold;
    if (!grid->filled)
        return;
    for (int64_t c = 0; c < grid->columns; c++) {
        if (c % FOLD == 0)
            cells_fold(grid->rows + c, grid->width, grid->filled, &fold);
        if (fold.any[c % FOLD])
            column_presence(survey, c, first, fold.any[c % FOLD]);
        if (fold.usual[c % FOLD])
            column_usual(survey, c, first, &fold);
    }
    memset(grid->rows, 0, (size_t)(grid->filled * grid->width));
    grid->filled = 0;
}

static inline uint8_t *grid_row(const Grid *grid) {
    return grid->rows + grid->filled * grid->width;
}

/* Room for more columns. The row being read stays. */
static int survey_widen(Survey *survey) {
    Grid *grid = &survey->grid, old = *grid;
    int64_t width = old.width ? 2 * old.width : FOLD;
    size_t columns = (size_t)width;
    uint8_t *rows = calloc(columns, ROWS);
    Pattern *patterns = realloc(old.patterns, columns * sizeof *patterns);
    grid->patterns = patterns ? patterns : old.patterns;
    Touch *touches = realloc(old.touches, columns * sizeof *touches);
    grid->touches = touches ? touches : old.touches;
    if (!rows || !patterns || !touches) {
        free(rows);
        return -1;
    }
    if (old.rows) {
        int64_t filled = grid->filled;
        uint8_t *row = grid_row(grid);
        memcpy(rows, row, (size_t)old.width);
        memset(row, 0, (size_t)old.width);
        grid->filled = filled;
        survey_flush(survey);
    }
    free(old.rows);
    grid->rows = rows;
    grid->width = width;
    return 0;
}

/* Keys and their columns. */

static void pattern_kind(Pattern *pattern, int kind) {
    uint64_t tag = (uint64_t)(kind << 3 | WIRE_BYTES);
    pattern->kind = kind;
    pattern->odd = kind == FOUND_FLOAT ? 3 : 0;
    /* Without a kind nothing is usual: what is more than six bytes hold fits none. */
    pattern->head = kind == FOUND_NONE ? HEAD_MASK + 1
                                       : 0x12 + (tag << 16) + ((uint64_t)0x0a << 32) -
                                             ((uint64_t)2 << 24) - ((uint64_t)4 << 40);
}

static void pattern_key(Pattern *pattern, Part key) {
    uint8_t sign[8 * SIGNS] = {0x0a, 0, 0x0a}, mask[8 * SIGNS] = {0xff, 0x80, 0xff, 0xff};
    int64_t size = key.end - key.at;
    pattern->fixed = size < SHORT_ENTRY ? (uint32_t)size + 8 : 2 * SHORT_ENTRY;
    sign[3] = size < SHORT_ENTRY ? (uint8_t)size : 0xff;
    for (int64_t i = 0; i < size && i < 8 * SIGNS - 4; i++) {
        sign[i + 4] = key.at[i];
        mask[i + 4] = 0xff;
    }
    memcpy(pattern->sign, sign, sizeof sign);
    memcpy(pattern->mask, mask, sizeof mask);
}

/* A column for a slot, unless there are too many: a row with few of all keys costs time too. */
static int slot_column(Survey *survey, int64_t number, int kind) {
    Grid *grid = &survey->grid;
    Slot *slot = &survey->slots[number];
    if (grid->columns >= 256 + 2 * survey->record.count || grid->columns >= MOST_COLUMNS)
        return 0;
    if (grid->columns == grid->width && survey_widen(survey))
        return -1;
    Pattern *pattern = &grid->patterns[grid->columns];
    pattern->next = -1;
    pattern->slot = number;
    pattern_key(pattern, slot->key);
    pattern_kind(pattern, kind);
    slot->column = grid->columns++;
    return 0;
}

/* A slot for the key of an entry that has none; its number, or -1 without memory. */
static int64_t survey_add(Survey *survey, const Entry *entry, uint64_t at) {
    if (survey->count == survey->room) {
        int64_t room = survey->room ? 2 * survey->room : 64;
        Slot *slots = realloc(survey->slots, (size_t)room * sizeof *slots);
        if (!slots)
            return -1;
        survey->slots = slots;
        survey->room = room;
    }
    Slot *slot = &survey->slots[survey->count];
    *slot = (Slot){.key = entry->key, .column = -1, .last = -1, .seen = -1};
    slot->facts = (Facts){.absent = -1, .repeated = -1, .fewest = -1, .most = -1,
                          .low = INT64_MAX, .high = INT64_MIN};
    for (int kind = 0; kind < FOUND_KINDS; kind++)
        slot->facts.kind_first[kind] = -1;
    survey->hashed[at] = survey->count++;
    if (((uint64_t)survey->count * 2 > survey->mask &&
         survey_rehash(survey, 4 * (survey->mask + 1))) ||
        slot_column(survey, survey->count - 1, entry->kind))
        return -1;
    return survey->count - 1;
}

/* The slot of an entry, made where it has none; -1 without memory. */
static int64_t survey_slot(Survey *survey, const Entry *entry) {
    uint64_t at;
    int64_t slot = survey_find(survey, entry->key, &at);
    return slot >= 0 ? slot : survey_add(survey, entry, at);
}

#endif

/* What the records of a buffer say of each of their features.
 *
 * Two ways lead there. The long one reads a record as any protobuf message may stand. Nearly all
 * writers put an entry down in one form, though, and their records have the same keys in the same
 * order: the short way foresees the key of each entry from the record before, and compares the
 * whole form at once. It leaves a record to the long way as soon as anything is unusual. */
#ifndef TFREC_SURVEY_H
#define TFREC_SURVEY_H

#include "_columns.h"

/* Counting one entry. */

/* The Example being read has the slot, in no usual form. */
static inline void survey_mark(Survey *survey, Slot *slot) {
    int64_t ordinal = survey->examples;
    if (slot->column >= 0) {
        grid_row(&survey->grid)[slot->column] = ELSEWHERE;
        return;
    }
    if (slot->last < ordinal - 1 && slot->facts.absent < 0)
        slot->facts.absent = survey->ordinals[slot->last + 1];
    slot->last = ordinal;
    slot->facts.present++;
}

static inline void survey_values(Survey *survey, const Entry *entry, int64_t number) {
    Slot *slot = &survey->slots[entry->slot];
    Facts *facts = &slot->facts;
    int64_t size = entry->whole.end - entry->whole.at;
    facts->bytes += 1 + varint_size((uint64_t)size) + size;
    facts->payload += entry->payload;
    if (facts->kind_records[entry->kind]++ == 0)
        facts->kind_first[entry->kind] = number;
    if (entry->kind == FOUND_NONE)
        return;
    if (slot->column >= 0 && survey->grid.patterns[slot->column].kind == FOUND_NONE)
        pattern_kind(&survey->grid.patterns[slot->column], entry->kind);
    facts_values(facts, entry->count, entry->count, entry->count);
    facts->low = entry->low < facts->low ? entry->low : facts->low;
    facts->high = entry->high > facts->high ? entry->high : facts->high;
}

/* The record being read, which is record `number`, is an Example and counted. */
static inline void survey_next(Survey *survey, int64_t number) {
    survey->ordinals[survey->examples++] = number;
    if (++survey->grid.filled == ROWS)
        survey_flush(survey);
}

/* The short way. */

static inline int pattern_fits(const Survey *survey, const Pattern *pattern, const uint8_t *at) {
    const uint64_t *sign = pattern->sign, *mask = pattern->mask;
    if (((load64(at) ^ sign[0]) & mask[0]) | ((load64(at + 8) ^ sign[1]) & mask[1]))
        return 0;
    if (pattern->fixed <= 16 - 4 + 8)
        return 1;
    if (((load64(at + 16) ^ sign[2]) & mask[2]) | ((load64(at + 24) ^ sign[3]) & mask[3]))
        return 0;
    uint32_t size = pattern->fixed - 8;
    if (size <= 8 * SIGNS - 4)
        return 1;
    return size < SHORT_ENTRY && !memcmp(at + 4, survey->slots[pattern->slot].key.at, size);
}

/* The column of the entry at `at`, which `*link` probably is; -1 where it is not known. */
static inline int64_t survey_column(const Survey *survey, Part part, int32_t *link) {
    const Grid *grid = &survey->grid;
    int32_t guess = *link;
    for (int tries = 0; tries < 3 && guess >= 0; tries++) {
        if (pattern_fits(survey, &grid->patterns[guess], part.at))
            return guess;
        guess = grid->patterns[guess].next;
    }
    const uint8_t *at = part.at;
    uint64_t place;
    if (at[0] != 0x0a || at[1] >= SHORT_ENTRY || at[2] != 0x0a || at[3] + 2 > at[1])
        return -1;
    int64_t slot = survey_find(survey, (Part){at + 4, at + 4 + at[3]}, &place);
    int64_t column = slot >= 0 ? survey->slots[slot].column : -1;
    if (column >= 0)
        *link = (int32_t)column;
    return column;
}

/* The packed integers of an entry in usual form, mostly one. */
static inline int ints_short(Ints *ints, const uint8_t *at, uint32_t size) {
    uint64_t word = load64(at), tops = ~word & TOPS;
    *ints = (Ints){INT64_MAX, INT64_MIN, 0};
    if (size - 1 < 8) {
        uint64_t mask = ~UINT64_C(0) >> (64 - 8 * size);
        if ((tops & mask) == UINT64_C(0x80) << (8 * size - 8)) {
            ints_add(ints, varint_join(word & mask));
            return 0;
        }
    } else if (size - 9 < 2 && !tops) {
        uint64_t more = (uint64_t)at[8] | (uint64_t)at[9] << 8;
        more &= size == 9 ? 0xff : 0xffff;
        if ((more & 0x8080) == (size == 9 ? 0 : 0x80)) {
            ints_add(ints, varint_join(word) | (more & 0x7f) << 56 | more >> 8 << 63);
            return 0;
        }
    }
    return ints_read(ints, (Part){at, at + size});
}

/* Take the entry at `part.at` where its form is usual: its size, or 0 where it is not. */
static inline uint32_t survey_usual(Survey *survey, Part part, int64_t column, uint8_t *row) {
    Grid *grid = &survey->grid;
    const Pattern *pattern = &grid->patterns[column];
    const uint8_t *at = part.at;
    uint32_t size = at[1] - pattern->fixed;
    if (size >= SHORT_ENTRY || at[1] + 2 > part.end - at || row[column] || size & pattern->odd ||
        (load64(at + pattern->fixed - 4) & HEAD_MASK) != pattern->head + (size + 4) * HEAD_SPREAD)
        return 0;
    if (pattern->kind == FOUND_INT64) {
        Touch *touch = &grid->touches[grid->touched];
        if (ints_short(&touch->ints, at + pattern->fixed + 2, size))
            return 0;
        touch->column = column;
        grid->touched++;
    }
    row[column] = at[1];
    return at[1] + 2u;
}

/* Take an entry of another form, to be counted with the whole record: 0, or 1 where the record is
 * to go the long way, or -1 without memory. */
static int survey_unusual(Survey *survey, Part *part, int32_t **link) {
    Field field;
    uint64_t place;
    if (part_field(part, &field) || field.number != 1 || field.wire != WIRE_BYTES)
        return 1;
    Entry *entry = record_entry(&survey->record);
    if (!entry)
        return -1;
    if (entry_read(entry, field.body))
        return 1;
    Pattern *patterns = survey->grid.patterns;
    int64_t column = **link;
    if (column >= 0 && same_key(entry->key, survey->slots[patterns[column].slot].key)) {
        entry->slot = patterns[column].slot;
    } else {
        entry->slot = survey_find(survey, entry->key, &place);
        column = entry->slot >= 0 ? survey->slots[entry->slot].column : -1;
    }
    if (column >= 0) {
        **link = (int32_t)column;
        *link = &patterns[column].next;
    }
    return 0;
}

/* Mark what the short way has taken in unusual form; 1 where a key comes twice. */
static int survey_mark_all(Survey *survey) {
    Record *record = &survey->record;
    for (int64_t i = 0; i < record->count; i++) {
        Entry *entry = &record->entries[i];
        if (entry->slot < 0)
            entry->slot = survey_slot(survey, entry);
        if (entry->slot < 0)
            return -1;
        Slot *slot = &survey->slots[entry->slot];
        if (slot->seen == survey->readings ||
            (slot->column >= 0 && grid_row(&survey->grid)[slot->column]))
            return 1;
        slot->seen = survey->readings;
    }
    for (int64_t i = 0; i < record->count; i++)
        survey_mark(survey, &survey->slots[record->entries[i].slot]);
    return 0;
}

static int survey_commit(Survey *survey, int64_t number) {
    Grid *grid = &survey->grid;
    const Record *record = &survey->record;
    int fault = record->count ? survey_mark_all(survey) : 0;
    if (fault)
        return fault;
    for (int64_t i = 0; i < record->count; i++)
        survey_values(survey, &record->entries[i], number);
    for (int64_t i = 0; i < grid->touched; i++) {
        const Ints *ints = &grid->touches[i].ints;
        Facts *facts = &survey->slots[grid->patterns[grid->touches[i].column].slot].facts;
        facts_values(facts, ints->count, ints->count, ints->count);
        facts->low = ints->low < facts->low ? ints->low : facts->low;
        facts->high = ints->high > facts->high ? ints->high : facts->high;
    }
    survey_next(survey, number);
    return 0;
}

/* Read and count record `number`: 0, or 1 where it is to go the long way, -1 without memory. */
static int survey_short(Survey *survey, Part part, int64_t number) {
    Grid *grid = &survey->grid;
    int32_t *link = &grid->first;
    uint64_t size;
    int fault = 0;
    if (part.at == part.end || *part.at++ != 0x0a || part_size(&part, &size) ||
        size != (uint64_t)(part.end - part.at))
        return 1;
    survey->readings++;
    survey->record.count = grid->touched = 0;
    uint8_t *row = grid_row(grid);
    while (part.at < part.end && !fault) {
        uint32_t taken = 0;
        if (survey->limit - part.at >= SURVEY_SLACK) {
            int64_t column = survey_column(survey, part, link);
            if (column >= 0 && (taken = survey_usual(survey, part, column, row))) {
                part.at += taken;
                link = &grid->patterns[column].next;
            }
        }
        if (!taken)
            fault = survey_unusual(survey, &part, &link);
    }
    if (!fault)
        fault = survey_commit(survey, number);
    if (fault)
        memset(grid_row(grid), 0, (size_t)grid->width);
    return fault;
}

/* The long way. */

/* Count the entries of an Example, which is record `number`. Of two with one key the later counts,
 * as for TensorFlow. */
static int survey_count(Survey *survey, int64_t number) {
    Record *record = &survey->record;
    survey->readings++;
    for (int64_t i = 0; i < record->count; i++) {
        Entry *entry = &record->entries[i];
        entry->slot = survey_slot(survey, entry);
        if (entry->slot < 0)
            return -1;
        Slot *slot = &survey->slots[entry->slot];
        if (slot->seen == survey->readings) {
            record->entries[slot->entry].dead = 1;
            if (slot->facts.repeated < 0)
                slot->facts.repeated = number;
        }
        slot->seen = survey->readings;
        slot->entry = i;
    }
    for (int64_t i = 0; i < record->count; i++) {
        const Entry *entry = &record->entries[i];
        if (entry->dead)
            continue;
        survey_mark(survey, &survey->slots[entry->slot]);
        survey_values(survey, entry, number);
    }
    survey_next(survey, number);
    return 0;
}

/* Read and count record `number`: 0, or -1 without memory. */
static int survey_long(Survey *survey, Part part, int64_t number) {
    int fault = record_read(&survey->record, part);
    if (fault == -2)
        return -1;
    if (fault)
        return offsets_push(&survey->invalid, number);
    if (survey->record.sequence && survey->sequences++ == 0)
        survey->first_sequence = number;
    return survey_count(survey, number);
}

/* The `count` framed records of `data` that end at `ends`, which lie within it. 0, or -1 without
 * memory. */
static int survey_run(Survey *survey, const uint8_t *data, const int64_t *ends, int64_t count) {
    survey->first_sequence = survey->grid.first = -1;
    survey->limit = count ? data + ends[count - 1] : data;
    survey->ordinals = malloc((size_t)(count + 1) * sizeof *survey->ordinals);
    if (!survey->ordinals || survey_rehash(survey, 256) || survey_widen(survey))
        return -1;
    for (int64_t i = 0; i < count; i++) {
        Part part = {data + (i ? ends[i - 1] : 0) + 12, data + ends[i] - 4};
        int fault = survey_short(survey, part, i);
        if (fault < 0 || (fault && survey_long(survey, part, i)))
            return -1;
    }
    survey_flush(survey);
    for (int64_t s = 0; s < survey->count; s++) {
        Slot *slot = &survey->slots[s];
        if (slot->facts.absent < 0 && slot->last < survey->examples - 1)
            slot->facts.absent = survey->ordinals[slot->last + 1];
    }
    return 0;
}

static void survey_free(Survey *survey) {
    free(survey->record.entries);
    free(survey->slots);
    free(survey->hashed);
    free(survey->grid.rows);
    free(survey->grid.patterns);
    free(survey->grid.touches);
    free(survey->ordinals);
    free(survey->invalid.items);
}

#endif

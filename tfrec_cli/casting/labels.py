"""Label features: names become their numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import from_numpy, from_values, scalar
from tfrec_cli.casting.arrays import fill, valid
from tfrec_cli.casting.literals import leaf_of
from tfrec_cli.casting.values import SKIP, Values, convert
from tfrec_cli.errors import Fault, counted, did_you_mean
from tfrec_cli.kinds import is_text
from tfrec_cli.schema.binding import BoundFeature
from tfrec_cli.schema.grammar import null_declared
from tfrec_cli.words import as_text


def look_up(array: pa.Array, feature: BoundFeature, column: str | None) -> Values:
    """The numbers of values by `feature.labels`, the first of which has the number
    `feature.first_label`, as `feature.type` (bytes: the names).

    array: plain, without lists; numbers are looked up by their shortest digits. Values that are
    not among the labels become faults, nulls or the default, as `feature.unknown` says.
    """
    names = feature.labels or ()
    texts = as_text(array)
    if feature.text is not None and is_text(array.type):
        texts = null_declared(texts, feature.text)
    places = pc.index_in(texts, value_set=from_values(names, texts.type), skip_nulls=True)
    unknown = np.flatnonzero(valid(texts) & ~valid(places))
    found = _numbered(places, feature)
    values = convert(found, replace(feature, labels=None, text=None), column).array
    if not len(unknown) or feature.unknown.action == "omit":
        return Values(values, left_out=unknown)
    if feature.unknown.action == "default":
        filled = fill(values, leaf_of(feature, feature.unknown.default))
        return Values(pc.if_else(pc.is_valid(texts), filled, values))
    return Values(values, _unknown(texts, unknown, feature, column))


def _numbered(places: pa.Array, feature: BoundFeature) -> pa.Array:
    if feature.type == "bytes":
        return from_values(feature.labels or (), pa.binary()).take(places)
    return pc.add(pc.cast(places, pa.int64()), scalar(feature.first_label, pa.int64()))


def _unknown(
    texts: pa.Array, places: Any, feature: BoundFeature, column: str | None
) -> tuple[Fault, ...]:
    names = feature.labels or ()
    hints: dict[str, str] = {}
    faults = []
    for row, text in zip(places.tolist(), texts.take(from_numpy(places)).to_pylist(), strict=True):
        if text not in hints:
            advice = f"Add it to the labels of {feature.key}, set `unknown` there, {SKIP}"
            hints[text] = did_you_mean(text, names).lstrip() or advice
        reason = f"is not among the {counted(len(names), 'label')} of {feature.key}"
        faults.append(Fault(row, column, text, reason, hints[text]))
    return tuple(faults)

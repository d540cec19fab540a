"""Single values as int64, float32 or bytes, with what is wrong with those that are not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import from_numpy, nulled, scalar, to_numpy
from tfrec_cli.casting.arrays import valid
from tfrec_cli.errors import Fault
from tfrec_cli.kinds import is_binary, is_text
from tfrec_cli.schema.binding import BoundFeature, FeatureType
from tfrec_cli.schema.grammar import Parsed, TextRules, null_declared, parse_float, parse_int64
from tfrec_cli.words import as_text, in_own_unit, is_time, out_of_years

FEATURE_TYPES = {"int64": pa.int64(), "float": pa.float32(), "bytes": pa.binary()}
SKIP = "or use --on-error skip."


@dataclass(frozen=True, slots=True)
class Values:
    """Values as a feature holds them: int64, float32, binary or large_binary, null where missing
    or at fault. faults: ascending; their `row` is a position in the array. left_out: positions
    of values that the schema says to leave out.
    """

    array: pa.Array
    faults: tuple[Fault, ...] = ()
    left_out: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


def convert(array: pa.Array, feature: BoundFeature, column: str | None) -> Values:
    """The values of a plain array without lists, of the source's `column`, as `feature.type`."""
    if pa.types.is_null(array.type):
        return Values(pa.nulls(len(array), FEATURE_TYPES[feature.type]))
    if is_binary(array.type) and feature.type != "bytes":
        array = as_text(array)
    if feature.text is not None and is_text(array.type):
        array = null_declared(array, feature.text)
    makers: dict[FeatureType, Callable[[_Asked], Values]] = {
        "int64": _to_int64,
        "float": _to_float,
        "bytes": _to_bytes,
    }
    return makers[feature.type](_Asked(array, feature, column))


@dataclass(frozen=True, slots=True)
class _Asked:
    array: pa.Array
    feature: BoundFeature
    column: str | None

    def faults(self, positions: Any, reason: str, hint: str) -> tuple[Fault, ...]:
        """A fault for each position, with the value that stands there."""
        if not len(positions):
            return ()
        found = as_text(self.array.take(from_numpy(positions.astype(np.int64)))).to_pylist()
        at = zip(positions.tolist(), found, strict=True)
        return tuple(Fault(row, self.column, value, reason, hint) for row, value in at)

    def ask(self, kind: str) -> str:
        """The hint to make the feature of another type."""
        return f"Make it {_article(kind)}{kind} in the schema ({self.feature.key}: {kind}), {SKIP}"


def _article(kind: str) -> str:
    return {"int64": "an ", "float": "a ", "bytes": ""}[kind]


def _sorted(*groups: Iterable[Fault]) -> tuple[Fault, ...]:
    return tuple(sorted((f for group in groups for f in group), key=lambda fault: fault.row))


# int64


def _to_int64(asked: _Asked) -> Values:
    array, kind = asked.array, asked.array.type
    if is_text(kind):
        return _text_to_int64(asked)
    if pa.types.is_uint64(kind):
        return _where(asked, _over_int64(array), lambda kept: pc.cast(kept, pa.int64()))
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return Values(array if kind == pa.int64() else pc.cast(array, pa.int64()))
    if pa.types.is_floating(kind):
        return _float_to_int64(asked)
    if pa.types.is_decimal(kind):
        return _decimal_to_int64(asked)
    if is_time(kind):
        return Values(in_own_unit(array))
    return _unreadable(asked)


def _text_to_int64(asked: _Asked) -> Values:
    rules = asked.feature.text or TextRules()
    parsed = parse_int64(asked.array, rules)
    if not len(parsed.bad) and not len(parsed.beyond):
        return Values(parsed.values)
    cells = asked.array.take(from_numpy(parsed.bad))
    floats = valid(parse_float(cells, rules).values) if len(cells) else np.empty(0, bool)
    return Values(
        parsed.values,
        _sorted(
            asked.faults(parsed.bad[floats], "is not an int64", asked.ask("float")),
            asked.faults(parsed.bad[~floats], "is not an int64", asked.ask("bytes")),
            asked.faults(parsed.beyond, _BEYOND_INT64, asked.ask("bytes")),
        ),
    )


_BEYOND_INT64 = "is beyond int64 (-2^63 to 2^63-1)"


def _over_int64(array: pa.Array) -> Any:
    return pc.greater(array, scalar(2**63 - 1, pa.uint64()))


def _where(asked: _Asked, wrong: Any, make: Callable[[pa.Array], pa.Array]) -> Values:
    """`make` of the array without the values that `wrong` says are beyond int64."""
    places = np.flatnonzero(to_numpy(wrong))
    if not len(places):
        return Values(make(asked.array))
    kept = pc.if_else(wrong, scalar(None, asked.array.type), asked.array)
    return Values(make(kept), asked.faults(places, _BEYOND_INT64, asked.ask("bytes")))


def _float_to_int64(asked: _Asked) -> Values:
    has = valid(asked.array)
    numbers = to_numpy(pc.cast(asked.array, pa.float64()))
    whole = np.isfinite(numbers) & (np.floor(numbers) == numbers)
    within = whole & (numbers >= -(2.0**63)) & (numbers < 2.0**63)
    values = np.where(within, numbers, 0).astype(np.int64)
    return Values(
        from_numpy(values, ~(within & has)),
        _sorted(
            asked.faults(np.flatnonzero(~whole), "is not an int64", asked.ask("float")),
            asked.faults(np.flatnonzero(whole & ~within), _BEYOND_INT64, asked.ask("float")),
        ),
    )


def _decimal_to_int64(asked: _Asked) -> Values:
    """Through the exact digits, by the grammar: a fraction of zeros is fine, any other is not."""
    digits = _Asked(as_text(asked.array), asked.feature, asked.column)
    parsed = parse_int64(digits.array, TextRules())
    return Values(
        parsed.values,
        _sorted(
            digits.faults(parsed.bad, "is not an int64", asked.ask("float")),
            digits.faults(parsed.beyond, _BEYOND_INT64, asked.ask("bytes")),
        ),
    )


# float


def _to_float(asked: _Asked) -> Values:
    array, kind = asked.array, asked.array.type
    if is_text(kind):
        parsed = parse_float(array, asked.feature.text or TextRules())
        return _parsed_floats(asked, parsed, "bytes")
    if pa.types.is_decimal(kind):
        # By way of the digits: Arrow's own cast is not always the nearest float.
        return _parsed_floats(asked, parse_float(as_text(array), TextRules()), "bytes")
    if pa.types.is_float32(kind):
        return Values(array)
    if pa.types.is_floating(kind):
        return _round(asked)
    if is_time(kind):
        array = in_own_unit(array)
    elif not (pa.types.is_boolean(kind) or pa.types.is_integer(kind)):
        return _unreadable(asked)
    whole = pc.cast(array, pa.uint8()) if pa.types.is_boolean(kind) else array
    return Values(_as_float32(whole))


_BEYOND_FLOAT = "is beyond float32 (about 3.4e38) and would become infinite"


def _parsed_floats(asked: _Asked, parsed: Parsed, other: str) -> Values:
    rounded = _as_float32(parsed.values)
    if not len(parsed.bad) and not len(parsed.beyond):
        return Values(rounded)
    return Values(
        rounded,
        _sorted(
            asked.faults(parsed.bad, "is not a float", asked.ask(other)),
            asked.faults(parsed.beyond, _BEYOND_FLOAT, asked.ask(other)),
        ),
    )


def _as_float32(array: pa.Array) -> pa.Array:
    """Numbers, each as the nearest float32; infinite beyond them."""
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = to_numpy(array).astype(np.float32)
    return from_numpy(numbers, ~valid(array) if array.null_count else None)


def _round(asked: _Asked) -> Values:
    rounded = _as_float32(asked.array)
    if pa.types.is_float16(asked.array.type):
        return Values(rounded)
    infinite = np.isinf(to_numpy(rounded))
    if infinite.any():
        made = infinite & ~np.isinf(to_numpy(asked.array))
        places = np.flatnonzero(made)
        if len(places):
            hint = f"Mend or leave out such values, {SKIP}"
            rounded = nulled(rounded, made)
            return Values(rounded, asked.faults(places, _BEYOND_FLOAT, hint))
    return Values(rounded)


# bytes


def _to_bytes(asked: _Asked) -> Values:
    array, kind = asked.array, asked.array.type
    if is_binary(kind):
        return Values(array)
    texts = array if is_text(kind) else as_text(array)
    faults: tuple[Fault, ...] = ()
    if pa.types.is_timestamp(kind):
        far = out_of_years(texts)
        if len(far):
            units = _Asked(in_own_unit(array), asked.feature, asked.column)
            reason = f"({kind.unit} since 1970) is beyond the years that ISO 8601 spells"
            hint = f"Leave `time: iso8601` out for {asked.feature.key}, {SKIP}"
            faults = units.faults(far, reason, hint)
    large = pa.types.is_large_string(texts.type)
    return Values(texts.view(pa.large_binary() if large else pa.binary()), faults)


def _unreadable(asked: _Asked) -> Values:
    """No value of this Arrow type can be read as the type asked."""
    feature, places = asked.feature, np.flatnonzero(valid(asked.array))
    reason = f"is a {asked.array.type}, which cannot become {_article(feature.type)}{feature.type}"
    nulls = pa.nulls(len(asked.array), FEATURE_TYPES[feature.type])
    return Values(nulls, asked.faults(places, reason, asked.ask("bytes")))

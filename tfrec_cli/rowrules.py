"""What the options of order and splits mean for one source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tfrec_cli.arrangement import Arrangement, Order
from tfrec_cli.dataset.naming import DEFAULT_SPLIT
from tfrec_cli.errors import UsageError, did_you_mean, shorten
from tfrec_cli.options import ConvertOptions
from tfrec_cli.schema.binding import BoundFeature
from tfrec_cli.shuffle.identity import Identity, OrderColumn, identify
from tfrec_cli.shuffle.sorting import check_sortable
from tfrec_cli.sources.base import Column, Survey
from tfrec_cli.splitting.asked import Asked, parse_splits
from tfrec_cli.splitting.splitter import Form, Splitter


def arrange(
    options: ConvertOptions, survey: Survey, features: Sequence[BoundFeature] = ()
) -> Arrangement:
    """What the options ask of this source, whose records hold `features`.

    Raises UsageError for a column that is not there or cannot be used so, and for splits where
    the source has splits of its own.
    """
    asked = parse_splits(options.split)
    folders = _folders(survey)
    _refuse_second_splits(options, folders)
    kinds = _kinds(features)
    columns = {c.name: _settled(c, kinds.get(c.name, ())) for c in survey.columns}
    keys = _columns("--key", options.key, columns)
    identity = identify(survey.partitions, options.sources, keys)
    order = _order(options, columns, identity)
    form, column = _form(options, asked, columns)
    if form == "one" and order is None:
        return Arrangement()
    if form == "one":
        names = folders or asked.names or (DEFAULT_SPLIT,)
        return Arrangement(Splitter("folders" if folders else "one", names), order, keys)
    seed = options.split_seed or 0
    splitter = Splitter(form, asked.names, identity, seed, column, asked.cumulative)
    return Arrangement(splitter, order, keys)


def _folders(survey: Survey) -> tuple[str, ...]:
    """The splits that the source's layout names, in its order; what has none is in the default."""
    if not any(partition.split for partition in survey.partitions):
        return ()
    return tuple(dict.fromkeys(part.split or DEFAULT_SPLIT for part in survey.partitions))


def _refuse_second_splits(options: ConvertOptions, folders: tuple[str, ...]) -> None:
    for flag, value in (("--split", options.split), ("--split-column", options.split_column)):
        if folders and value is not None:
            names = ", ".join(folders)
            raise UsageError(f"{flag} {value}: the source's folders already name splits ({names}).")


def _order(
    options: ConvertOptions, columns: Mapping[str, Column], identity: Identity
) -> Order | None:
    if options.shuffle:
        return Order("shuffle", identity, options.seed or 0)
    if not options.sort_by:
        return None
    sort_by = _columns("--sort-by", options.sort_by, columns)
    for column in sort_by:
        check_sortable(column.name, columns[column.name].type)
    return Order("sort", sort_by=sort_by)


def _form(
    options: ConvertOptions, asked: Asked, columns: Mapping[str, Column]
) -> tuple[Form, OrderColumn | None]:
    """How rows get their splits, and the column that decides."""
    forms: tuple[tuple[Form, str, str | None], ...] = (
        ("column", "--split-column", options.split_column),
        ("groups", "--split-by", options.split_by),
        ("classes", "--stratify", options.stratify),
    )
    for form, flag, name in forms:
        if name is not None:
            return form, _columns(flag, (name,), columns)[0]
    if not asked.fractions:
        return "one", None
    return ("exact" if options.split_exact else "hash"), None


def _settled(column: Column, kinds: Sequence[str]) -> Column:
    """The column with the kind that its cells have in the records; where no feature holds them as
    they are, what the survey found them to be.
    """
    if column.text is None or not kinds:
        return column
    # A value that is one number must be one value, whatever else holds its text.
    return replace(column, kind=next((kind for kind in kinds if kind != "bytes"), kinds[0]))


def _kinds(features: Sequence[BoundFeature]) -> dict[str, list[str]]:
    """For each column, the types of the features whose values are its cells, read as that type."""
    kinds: dict[str, list[str]] = {}
    for feature in features:
        if feature.labels is None and not feature.load and feature.separator is None:
            for name in feature.columns:
                kinds.setdefault(name, []).append(feature.type)
    return kinds


def _columns(
    flag: str, names: Iterable[str], known: Mapping[str, Column]
) -> tuple[OrderColumn, ...]:
    return tuple(_order_column(flag, name, known) for name in names)


_NO_COLUMNS = "It has none: what its records hold are no features."


def _order_column(flag: str, name: str, known: Mapping[str, Column]) -> OrderColumn:
    if name not in known:
        raise UsageError(
            f'{flag}: the source has no column "{shorten(name)}".{did_you_mean(name, known)} '
            + (f"Its columns are {shorten(', '.join(known), 300)}." if known else _NO_COLUMNS)
        )
    column = known[name]
    return OrderColumn(name, column.text, column.kind)

"""Where the bytes of records go, and what would save some, as `plan` and `inspect` print it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tfrec_cli.cli.common import human_size
from tfrec_cli.errors import key_text, shorten

if TYPE_CHECKING:
    from tfrec_cli.estimates.footprint import FeatureBytes, Footprint, Saving

WIDTH = 100
# Features that are listed one by one.
SHOWN_FEATURES = 20
LEAST_SAVING = 0.01


def footprint_lines(found: Footprint) -> Iterator[str]:
    """The whole by kind of bytes, then the largest features."""
    total = max(found.total, 1)
    groups = found.groups
    shown = groups[:SHOWN_FEATURES]
    keys = [key_text(feature.key, 40) for feature in shown]
    width = max(map(len, ("where the bytes go", *keys)))
    head = ("values", "names", "protobuf", "framing", "all", "")
    yield f"{'where the bytes go':<{width}}" + "".join(f"{word:>11}" for word in head).rstrip()
    for key, feature in zip(keys, shown, strict=True):
        yield _feature_line(f"{key:<{width}}", feature, total)
    if more := len(groups) - len(shown):
        yield f"… and {more:,} smaller {'feature' if more == 1 else 'features'}"
    sizes = (found.values, found.names, found.protobuf, found.framing, found.total)
    yield f"{'all':<{width}}" + "".join(f"{human_size(size):>11}" for size in sizes)
    shares = "".join(f"{size / total:>11.0%}" for size in sizes)
    yield f"{'':<{width}}{shares}"


def _feature_line(key: str, feature: FeatureBytes, total: float) -> str:
    sizes = [human_size(size) for size in (feature.values, feature.names, feature.other)]
    columns = "".join(f"{text:>11}" for text in [*sizes, "", human_size(feature.total)])
    return f"{key}{columns}{feature.total / total:>11.0%}"


def saving_lines(savings: Sequence[Saving], size: float) -> Iterator[str]:
    """A sentence for each saving that is worth a word. size: of all records."""
    total = max(size, 1)
    worth = [saving for saving in savings if saving.bytes >= LEAST_SAVING * total]
    if worth:
        yield ""
    for saving in worth:
        text = f"{saving.text} would save {human_size(saving.bytes)} ({saving.bytes / total:.0%})"
        text = shorten(text, 1000)
        yield from textwrap.wrap(text, WIDTH, subsequent_indent="  ")

"""What records are that are no `tf.train.Example`, as `inspect` and `stats` print it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tfrec_cli.cli.footprints import WIDTH
from tfrec_cli.errors import counted, key_text, listed

_SHOWN = 10

if TYPE_CHECKING:
    from tfrec_cli.inspection.payload import Payload


def payload_lines(payloads: Sequence[Payload], records: int) -> Iterator[str]:
    """A sentence for each kind of payload. records: how many there are in all."""
    for one in payloads[:_SHOWN]:
        yield from textwrap.wrap(_sentence(one, records), WIDTH, subsequent_indent="    ")
    if more := payloads[_SHOWN:]:
        number = counted(sum(one.records for one in more), "record")
        yield f"  payload  {number} of {counted(len(more), 'further kind')} (--json names them)"


def _sentence(one: Payload, records: int) -> str:
    place = f"(the first: {one.file}, record {one.record})"
    is_all = one.records == records
    count = "all records" if is_all and records > 1 else counted(one.records, "record")
    are = "is" if one.records == 1 else "are"
    if one.kind == "tf.train.SequenceExample":
        keys = listed([key_text(key, 40) for key in one.keys], 8)
        lists = f"feature lists: {keys}" if keys else "without feature lists"
        said = f"{are} tf.train.SequenceExample, {lists}; the features below are their context"
        return f"  payload  {count} {said} {place}"
    if one.sampled:
        place = f"(by a sample; the first: {one.file}, record {one.record})"
        count = f"about {count}"
    return f"  payload  {count} {are} no tf.train.Example, but {one.kind} {place}"

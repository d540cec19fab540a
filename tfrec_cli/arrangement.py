"""Which split a row goes to, and which place in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tfrec_cli.shuffle.identity import Identity, OrderColumn
    from tfrec_cli.splitting.splitter import Splitter


def _by_number() -> Identity:
    from tfrec_cli.shuffle.identity import Identity

    return Identity()


@dataclass(frozen=True, slots=True)
class Order:
    """How the records of each split are put in order: shuffled with a seed, sorted by columns, or
    as the `source` has them, where they are put in order like the others.

    identity: what a shuffle goes by. step: the distance of the keys of two rows in source order.
    """

    kind: Literal["shuffle", "sort", "source"]
    identity: Identity = field(default_factory=_by_number)
    seed: int = 0
    sort_by: tuple[OrderColumn, ...] = ()
    step: int = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The source's columns that the order depends on."""
        return tuple(column.name for column in (*self.identity.keys, *self.sort_by))


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The split and the place of rows.

    splitter: None where all rows, or whole partitions, go to one split each and in source order.
    order: None is the source's. keys: the columns whose values must differ from row to row.
    """

    splitter: Splitter | None = None
    order: Order | None = None
    keys: tuple[OrderColumn, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The source's columns that splits and order depend on, each once."""
        splitting = self.splitter.columns if self.splitter else ()
        ordering = self.order.columns if self.order else ()
        keys = (key.name for key in self.keys)
        return tuple(dict.fromkeys((*splitting, *ordering, *keys)))

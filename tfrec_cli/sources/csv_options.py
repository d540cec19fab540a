"""The options of the CSV source: what a person may say about the dialect of their files."""

from __future__ import annotations

import codecs
import csv
from collections import Counter
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tfrec_cli.errors import UsageError
from tfrec_cli.options import parse_size
from tfrec_cli.schema.grammar import TextRules

_NAMED_MARKS = {
    "tab": "\t",
    "\\t": "\t",
    "comma": ",",
    "semicolon": ";",
    "pipe": "|",
    "space": " ",
    "backslash": "\\",
}
_NO_MARK = ("", "none")
BLOCK_PER_COLUMN = 16 * 2**10
MOST_BLOCK = 32 * 2**20


class CsvOptions(BaseModel):
    """How CSV files are read. All of them are kept in the schema that a conversion saves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    delimiter: str | None = Field(
        None,
        description="one ASCII character between cells; tab or \\t for a tabulator. "
        "By default a comma (a tab in .tsv files), or ; tab | where the file leaves no doubt",
    )
    quote: str | None = Field(
        '"',
        description="the character around cells that hold delimiters or line ends; none for none",
    )
    escape: str | None = Field(
        None, description="a character that takes the next one's meaning away, such as \\"
    )
    header: bool | None = Field(
        None,
        description="whether the first row holds the names. "
        "By default it does, unless names are given",
    )
    names: tuple[str, ...] | None = Field(
        None,
        description="the columns' names, separated by commas; with header=true they replace it",
    )
    encoding: str | None = Field(
        None,
        description="the text encoding, such as cp1252. "
        "By default UTF-8, or what a byte order mark says",
    )
    null_words: tuple[str, ...] | None = Field(
        None,
        description="words that mean missing in every column, separated by commas. "
        "By default NA, null and the like, in columns of numbers only",
    )
    decimal: str = Field(".", description="the decimal mark: . or ,")
    thousands: str | None = Field(
        None, description="the mark between groups of three digits. By default none is allowed"
    )
    quoted_empty: Literal["missing", "text"] = Field(
        "missing", description='what "" means: a missing value, or an empty text'
    )
    block: int = Field(
        4 * 2**20,
        description="how much is read at a time, such as 4MiB; more only for a longer row",
    )

    @field_validator("delimiter", "quote", "escape", mode="before")
    @classmethod
    def _mark(cls, value: Any, info: ValidationInfo) -> Any:
        if info.field_name == "delimiter" and value in _NO_MARK:
            raise ValueError("a delimiter is one ASCII character")
        if isinstance(value, str):
            value = _NAMED_MARKS.get(value.lower(), value)
            value = None if value.lower() in _NO_MARK else value
        if isinstance(value, str) and (len(value) > 1 or not value.isascii() or value in "\r\n\0"):
            raise ValueError(f"{value!r} is not one ASCII character")
        return value

    @field_validator("names", "null_words", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(next(csv.reader([value]), [])) if value else ()
        return value

    @field_validator("names")
    @classmethod
    def _distinct(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        twice = next((name for name, n in Counter(value or ()).items() if n > 1), None)
        if twice is not None:
            raise ValueError(f'"{twice}" is given twice')
        if value is not None and not all(value):
            raise ValueError("a name is empty")
        return value

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            "".encode(value)
            codecs.getincrementaldecoder(value)
        except LookupError:
            raise ValueError(f'"{value}" is not an encoding of text that Python knows') from None
        return value

    @field_validator("thousands", mode="before")
    @classmethod
    def _thousands(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = _NAMED_MARKS.get(value.lower(), value)
            value = None if value.lower() in _NO_MARK else value
        if isinstance(value, str) and len(value) > 1:
            raise ValueError(f"{value!r} is not one character")
        return value

    @field_validator("decimal")
    @classmethod
    def _decimal(cls, value: str) -> str:
        value = _NAMED_MARKS.get(value.lower(), value)
        if value not in (".", ","):
            raise ValueError(f'"{value}" is neither . nor ,')
        return value

    @field_validator("block", mode="before")
    @classmethod
    def _size(cls, value: Any) -> Any:
        try:
            return parse_size(str(value))
        except UsageError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _distinct_marks(self) -> CsvOptions:
        marks = [m for m in (self.delimiter, self.quote, self.escape) if m is not None]
        if len(set(marks)) < len(marks):
            raise ValueError("delimiter, quote and escape must differ from each other")
        if self.thousands == self.decimal:
            raise ValueError("decimal and thousands must differ from each other")
        return self

    def block_of(self, width: int) -> int:
        """Bytes that are read at a time of rows of `width` cells. By default more for wide rows:
        each column of each block has its cost.
        """
        if "block" in self.model_fields_set:
            return self.block
        return min(MOST_BLOCK, max(self.block, width * BLOCK_PER_COLUMN))

    @property
    def rules(self) -> TextRules:
        """How the cells are read as numbers."""
        return TextRules(self.decimal, self.thousands, self.null_words)

    @property
    def has_header(self) -> bool:
        """Whether the first row of each file is its header."""
        return self.names is None if self.header is None else self.header

    def saved(self, delimiter: str | None) -> dict[str, Any]:
        """What reads the same files in the same way: the options given, and the delimiter found.

        delimiter: that of all files, or None where they differ and each is detected again.
        """
        given = self.model_dump(exclude_defaults=True, exclude={"block", "delimiter"})
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in given.items()}
        if "quote" in plain and plain["quote"] is None:
            plain["quote"] = "none"
        found = self.delimiter if delimiter is None else delimiter
        return ({} if found is None else {"delimiter": found}) | plain

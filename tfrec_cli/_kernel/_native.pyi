from collections.abc import Callable
from typing import Any

def encode(
    columns: list[tuple[Any, ...]],
    start: int,
    index: Any,
    ends: Any,
    limit: int,
    allocate: Callable[[int], Any],
) -> tuple[Any, int]: ...
def scan(buffer: Any) -> tuple[bytearray, str]: ...
def survey_examples(
    buffer: Any, ends: Any
) -> tuple[list[bytes], bytearray, bytearray, int, int]: ...
def find_feature(buffer: Any, ends: Any, key: bytes) -> bytearray: ...
def decode_examples(
    buffer: Any,
    ends: Any,
    features: list[tuple[bytes, int, bool, Any, Any]],
    allocate: Callable[[int], Any],
) -> tuple[list[tuple[int, int, Any]], bytearray, list[tuple[bytes, int]], bytearray, int, int]: ...
def split_csv(
    buffer: Any,
    delimiter: int,
    quote: int,
    escape: int,
    single: bool,
    final: bool,
    allocate: Callable[[int], Any],
) -> tuple[Any, int, int, bytearray, bool, int, int, int, int]: ...
def read_files(
    paths: tuple[bytes, ...], sizes: Any, whole: bool, data: Any, facts: Any
) -> None: ...
def masked_crc32c(data: Any, by_table: bool) -> int: ...
def crc32c(data: Any, value: int) -> int: ...
def text_facts(
    validity: Any, offsets: Any, width: int, data: Any, offset: int, count: int, out: Any
) -> bool: ...
def text_to_int64(
    validity: Any, offsets: Any, width: int, data: Any, offset: int, count: int, out: Any
) -> bool: ...
def text_to_float64(
    validity: Any, offsets: Any, width: int, data: Any, offset: int, count: int, out: Any
) -> bool: ...

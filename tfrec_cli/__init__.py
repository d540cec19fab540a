"""tfrec: CSV and Parquet tables and image folders into TFRecord datasets, ready to train on.

    import tfrec_cli

    tfrec_cli.convert("penguins.csv", "dataset")
    tfrec_cli.convert(frame, "train.tfrecord", schema="schema.yaml")
    tfrec_cli.open_dataset("dataset").batches(["species"], split="train")

Errors are `tfrec_cli.TfrecError` and its kinds in `tfrec_cli.errors`. Heavy imports happen when a
function is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import os

    from tfrec_cli.dataset.manifest import Manifest
    from tfrec_cli.errors import TfrecError
    from tfrec_cli.progress import Reporter
    from tfrec_cli.reading import RecordDataset

__version__ = "0.1.0"

__all__ = ["TfrecError", "__version__", "convert", "infer_schema", "open_dataset"]


def __getattr__(name: str) -> Any:
    """`TfrecError` when it is asked for: this module is imported before the command line can
    answer Ctrl-C, and should take no time.
    """
    if name == "TfrecError":
        from tfrec_cli.errors import TfrecError

        return TfrecError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def convert(
    source: Any,
    dest: str | os.PathLike[str],
    *,
    schema: Any = None,
    adapter: str | None = None,
    source_options: Mapping[str, Any] | None = None,
    name: str | None = None,
    split: str | None = None,
    shards: int | None = None,
    shard_size: int | str | None = None,
    compression: str | None = None,
    compressor: Literal["zlib", "isal", "libdeflate"] = "zlib",
    limit: int | None = None,
    on_error: Literal["fail", "skip"] = "fail",
    rejects: str | os.PathLike[str] | None = None,
    max_errors: int | None = None,
    jobs: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    force: bool = False,
    fsync: bool = True,
    temp_dir: str | os.PathLike[str] | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    sort_by: str | Sequence[str] = (),
    split_exact: bool = False,
    split_by: str | None = None,
    stratify: str | None = None,
    split_column: str | None = None,
    split_seed: int | None = None,
    key: str | Sequence[str] = (),
    memory: int | str | None = None,
    engine: Literal["threads", "dask"] = "threads",
    scheduler: str | None = None,
    index: str | None = None,
    metadata: str | None = None,
    verify: bool = False,
    reporter: Reporter | None = None,
) -> Manifest:
    """Write a TFRecord dataset, as `tfrec convert` does; return its manifest.

    source: a path, glob or folder, a pandas DataFrame, an Arrow table, or a sequence of paths.
    dest: a folder, or one file ending in .tfrecord, .tfrecords or .tfrec (then .gz or .zz).
    schema: a schema file, a mapping of the same shape, or None to infer one.
    adapter: the source adapter by name; source_options: its options (see `tfrec sources`).
    compression: `none`, `gzip` or `zlib`, with a level as in `gzip:9`; None follows dest's suffix.
    compressor: what compresses; `isal` and `libdeflate` come with `tfrec-cli[fast]`.
    split: a name, names, or fractions as in `train=0.8,test=0.2`.
    sort_by, key: a column, or several. seed, split_seed: None is 0.
    shard_size, memory: bytes, or text with a unit; None is 128 MiB, and a quarter of the machine's.
    jobs: threads; the output does not depend on it.
    engine: `dask` runs tasks on the cluster of the Dask `scheduler` (an address such as
    tcp://host:8786), or of `jobs` processes of its own; memory is then that of each worker.
    resume: go on with a run onto dest that was killed; overwrite: replace a dataset;
    force: even one that is up to date (its manifest is returned otherwise, and nothing written).
    index: `dali`, `tfindex` or both, as in `dali,tfindex`: index files for random access.
    metadata: of `tfds`, `tfmd`, `label-map`: files that other programs know the dataset by.
    fsync: have what is written on the disk itself before it is put at dest, so that it survives a
    power cut.
    verify: read all that was written before it is put at dest; DamageError where it is not right.
    reporter: receives progress and notices (see `tfrec_cli.progress.Reporter`).
    The other arguments are those of the command (`tfrec convert --help`).

    Raises TfrecError: UsageError and SchemaError for wrong arguments, SourceError and CellError
    for bad input, DatasetError where dest cannot be written. dest is then what it was before.
    """
    from tfrec_cli.conversion import convert
    from tfrec_cli.options import (
        Compression,
        ConvertOptions,
        default_jobs,
        default_memory,
        parse_index,
        parse_metadata,
        parse_size,
    )
    from tfrec_cli.progress import SILENT

    options = ConvertOptions(
        sources=_sources(source),
        dest=_path(dest),
        source=adapter,
        source_options={} if source_options is None else source_options,
        schema=schema,
        name=name,
        split=split,
        shards=shards,
        shard_size=None if shard_size is None else parse_size(str(shard_size)),
        compression=None if compression is None else Compression.parse(compression, compressor),
        compressor=compressor,
        limit=limit,
        on_error=on_error,
        rejects=None if rejects is None else _path(rejects),
        max_errors=max_errors,
        jobs=default_jobs() if jobs is None else jobs,
        overwrite=overwrite,
        resume=resume,
        force=force,
        fsync=fsync,
        temp_dir=None if temp_dir is None else _path(temp_dir),
        shuffle=shuffle,
        seed=seed,
        sort_by=_columns("sort_by", sort_by),
        split_exact=split_exact,
        split_by=split_by,
        stratify=stratify,
        split_column=split_column,
        split_seed=split_seed,
        key=_columns("key", key),
        memory=default_memory() if memory is None else parse_size(str(memory)),
        engine=engine,
        scheduler=scheduler,
        index=() if index is None else parse_index(index),
        metadata=() if metadata is None else parse_metadata(metadata),
    )
    if not verify:
        return convert(options, reporter or SILENT).manifest
    from tfrec_cli.verification import check_staged

    return convert(options, reporter or SILENT, check_staged).manifest


def infer_schema(
    source: Any,
    *,
    adapter: str | None = None,
    source_options: Mapping[str, Any] | None = None,
    jobs: int | None = None,
) -> str:
    """The schema inferred for `source` over all its rows, as YAML text (`tfrec schema`).

    The arguments are those of `convert`. Raises TfrecError as `convert` does.
    """
    from tfrec_cli.conversion import infer
    from tfrec_cli.options import ConvertOptions, default_jobs

    options = ConvertOptions(
        sources=_sources(source),
        dest="",
        source=adapter,
        source_options={} if source_options is None else source_options,
        jobs=default_jobs() if jobs is None else jobs,
    )
    return infer(options)


def open_dataset(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    jobs: int | None = None,
    on_error: Literal["fail", "skip"] = "fail",
    features: Mapping[str, tuple[str, tuple[int, ...] | None, bool]] | None = None,
) -> RecordDataset:
    """A dataset to read: a folder with or without a manifest, TFRecord files of any origin, a glob.

    Has `features`, `batches(columns, split)` of Arrow record batches, `records()` as bytes, a
    length, iterates over dicts, and has them by number (of plain files). jobs: threads that decode.
    on_error: `skip` leaves out records that are no Example, or not as the others, of all but those
    that are asked for by number. features: what the records hold
    where no manifest says it, so that they are not looked at for that: `{key: (type, shape, may be
    missing)}`, the shape of a list of any length being None. Raises TfrecError.
    """
    from tfrec_cli.reading import open_dataset as opened

    return opened(path, jobs, on_error, features)


def _sources(source: Any) -> tuple[Any, ...]:
    """One source or a sequence of them; paths as text, tables as they are."""
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        return tuple(_path(item) for item in source)
    return (_path(source),)


def _path(item: Any) -> Any:
    import os

    return os.fspath(item) if isinstance(item, os.PathLike) else item


def _columns(name: str, columns: str | Sequence[str]) -> tuple[str, ...]:
    """One column's name, or several."""
    from tfrec_cli.errors import UsageError

    if not isinstance(columns, Sequence):
        raise UsageError(f"{name} is {columns!r}; give a column's name, or several.")
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(f"{name} is {names}; name each column once.")
    return names

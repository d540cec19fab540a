"""`tfrec convert`: tables or images in, TFRecord shards out."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from tfrec_cli.cli.common import (
    PATH,
    Parsed,
    debug_option,
    fsync_option,
    human_size,
    jobs_option,
    json_option,
    overwrite_option,
    parse_source_options,
    quiet_option,
    say,
    source_options,
)
from tfrec_cli.cli.index import FORMATS as INDEX_FORMATS
from tfrec_cli.cli.metadata import FORMATS as METADATA_FORMATS
from tfrec_cli.cli.order import order_options, share, split_classes
from tfrec_cli.cli.profile import Profiling, profile_options
from tfrec_cli.cli.progress import TerminalReporter
from tfrec_cli.errors import UsageError, counted, key_text
from tfrec_cli.options import (
    LEVELS,
    Compression,
    ConvertOptions,
    default_jobs,
    default_memory,
    parse_size,
)

if TYPE_CHECKING:
    from tfrec_cli.conversion import Conversion
    from tfrec_cli.dataset.manifest import FeatureFacts, Manifest

# Features that the summary lists one by one.
SHOWN_FEATURES = 20


@click.command(
    "convert", short_help="Tables, images, boxes or TFRecord files in, TFRecord shards out."
)
@click.argument("paths", metavar="SOURCE... DEST", nargs=-1, type=PATH)
@click.option(
    "--schema", metavar="FILE", type=PATH, help="YAML schema. Default: inferred and saved."
)
@source_options
@click.option(
    "--name", metavar="NAME", help="Dataset name in shard names. Default: DEST's base name."
)
@order_options
@click.option(
    "--shards", metavar="N", type=click.IntRange(1), help="Number of shards of each split."
)
@click.option(
    "--shard-size", metavar="SIZE", type=Parsed("size", parse_size),
    help="Aim for shards of SIZE bytes (units: KiB, MiB, GiB, kB, MB, GB). Default: 128MiB.",
)  # fmt: skip
@click.option(
    "--compression", metavar="none|gzip|zlib[:LEVEL]",
    help="Compression of shards, level 0 to 9. Default: by DEST's suffix, else none; level 6.",
)  # fmt: skip
@click.option(
    "--compressor", type=click.Choice(list(LEVELS)), default="zlib",
    help="What compresses. isal is fastest (levels 0 to 3), libdeflate fast and small (gzip, 0 to "
    "12); both come with 'tfrec-cli[fast]'. Default: zlib.",
)  # fmt: skip
@click.option("--limit", metavar="N", type=click.IntRange(1), help="Take the first N rows only.")
@click.option(
    "--on-error", type=click.Choice(["fail", "skip"]), default="fail",
    help="Rows that cannot become a record: fail at the first, or leave them out. Default: fail.",
)  # fmt: skip
@click.option(
    "--rejects", metavar="FILE", type=PATH,
    help="With --on-error skip: write the rows left out, and why, as JSON lines.",
)  # fmt: skip
@click.option(
    "--max-errors", metavar="N", type=click.IntRange(0),
    help="With --on-error skip: fail when more than N rows are left out. Default: no limit.",
)  # fmt: skip
@jobs_option
@click.option(
    "--engine", type=click.Choice(["threads", "dask"]), default="threads",
    help="Where tasks run: in threads, or on a Dask cluster, by default one of -j processes on "
    "this machine; it comes with 'tfrec-cli[dask]'. Default: threads.",
)  # fmt: skip
@click.option(
    "--scheduler", metavar="ADDRESS",
    help="With --engine dask: the cluster's scheduler, as in tcp://host:8786. SOURCE, DEST and "
    "--temp-dir must be on storage that its workers see.",
)  # fmt: skip
@overwrite_option
@click.option(
    "--resume", is_flag=True,
    help="Go on with a run onto DEST that was killed: what it finished is not done again.",
)  # fmt: skip
@click.option(
    "--force", is_flag=True, help="With --overwrite: write again what is up to date, too."
)
@fsync_option
@click.option(
    "--temp-dir", metavar="DIR", type=PATH,
    help="Where streams, and records to be ordered, are kept meanwhile. Default: the system's, and "
    "beside DEST.",
)  # fmt: skip
@click.option(
    "--index", metavar="dali,tfindex", type=INDEX_FORMATS, default=(),
    help="Write index files for random access too, as `tfrec index` does.",
)  # fmt: skip
@click.option(
    "--metadata", metavar="tfds,tfmd,label-map", type=METADATA_FORMATS, default=(),
    help="Write metadata for other programs too, as `tfrec metadata` does.",
)  # fmt: skip
@click.option("--verify", is_flag=True, help="Read all that was written before it is put at DEST.")
@json_option
@profile_options
@quiet_option
@debug_option
def command(paths: tuple[str, ...], as_json: bool, quiet: bool, verify: bool, **given: Any) -> None:
    r"""Write the rows of SOURCE... as a TFRecord dataset at DEST.

    SOURCE is a CSV or Parquet file, an image folder, a table of boxes with its pictures (--source
    boxes), a TFRecord file or dataset, a folder or pattern of files, or - for standard input;
    several are one dataset, in the order given. DEST is a folder, one file (ending in .tfrecord,
    .tfrecords or .tfrec, then .gz or .zz if you like), or - for standard output.

    \b
    tfrec convert penguins.csv dataset
    tfrec convert 'logs/*.parquet' dataset --shards 16 --compression gzip
    tfrec convert photos/ dataset --shuffle --split train=0.9,test=0.1 --stratify image/class/text
    tfrec convert boxes.csv pictures/ dataset --source boxes
    tfrec convert train.csv train.tfrecord.gz --schema schema.yaml
    tfrec convert 'old/*.tfrecord' dataset --shuffle --shards 64
    """
    profiling = Profiling(given)
    options = options_of(paths, given)
    to_stdout = options.dest == "-"
    if to_stdout and as_json:
        raise UsageError("--json and DEST - both want standard output; leave one out.")
    profiling.check(options)
    reporter = TerminalReporter(bar=not quiet and not as_json)
    began = time.monotonic()
    try:
        with profiling.recording():
            conversion = _convert(options, reporter, verify)
    finally:
        reporter.close()
    seconds = time.monotonic() - began
    profiling.finish(options)
    if as_json:
        document = _document(conversion, reporter, seconds) | profiling.document()
        click.echo(json.dumps(document, indent=2))
    elif not quiet:
        say(*_summary(conversion, options, seconds), err=to_stdout)
        for notice in reporter.notices:
            say(f"note: {notice}", err=True)
    if not as_json and conversion.is_new:
        say(*profiling.lines(), err=True)


def _convert(options: ConvertOptions, reporter: TerminalReporter, verify: bool) -> Conversion:
    from tfrec_cli.conversion import convert

    if not verify:
        return convert(options, reporter)
    from tfrec_cli.verification import check_staged

    return convert(options, reporter, check_staged)


def options_of(
    paths: tuple[str, ...], given: dict[str, Any], command: str = "convert"
) -> ConvertOptions:
    """What the command line says, of `convert` or of a command with the same options."""
    if len(paths) < 2:
        what = "SOURCE and DEST are" if not paths else "DEST is"
        raise UsageError(f"{what} missing. Usage: tfrec {command} SOURCE... DEST")
    if given["compression"] is not None:
        given["compression"] = Compression.parse(given["compression"], given["compressor"])
    given["source_options"] = parse_source_options(given["source_options"])
    given["jobs"] = given["jobs"] or default_jobs()
    given["memory"] = given["memory"] or default_memory()
    return ConvertOptions(sources=paths[:-1], dest=paths[-1], **given)


def _document(conversion: Conversion, reporter: TerminalReporter, seconds: float) -> dict[str, Any]:
    """The manifest with what only this run knows."""
    document: dict[str, Any] = json.loads(conversion.manifest.to_json())
    seconds = round(seconds, 3)
    told = {"up_to_date": not conversion.is_new, "seconds": seconds, "notices": reporter.notices}
    return document | told


def _summary(conversion: Conversion, options: ConvertOptions, seconds: float) -> list[str]:
    """What was written, in a few aligned lines; or one line that nothing had to be."""
    manifest = conversion.manifest
    size = sum(shard.bytes for shard in manifest.shards)
    read = sum(file.size for file in manifest.sources if file.role in ("source", "loaded"))
    holds = (
        f"{counted(manifest.records, 'record')} in {counted(len(manifest.shards), 'shard')}, "
        f"{human_size(size)}"
    )
    if not conversion.is_new:
        return [f"{options.dest}: up to date, {holds}"]
    rate = manifest.records / seconds if seconds else 0
    lines = [
        f"{options.dest}: {holds}"
        + (f" from {human_size(read)}" if read else "")
        + f", {seconds:.2f} s ({rate:,.0f} records/s)",
        *_split_lines(manifest),
        f"  schema   {_schema_line(manifest, options)}",
    ]
    if manifest.rows.rejected:
        kept = f", listed in {options.rejects}" if options.rejects else ""
        lines.append(f"  skipped  {counted(manifest.rows.rejected, 'row')} in error{kept}")
    return [*lines, *_feature_lines(manifest)]


def _split_lines(manifest: Manifest) -> list[str]:
    lines = []
    width = max(8, *(len(split.name) for split in manifest.splits))
    for split in manifest.splits:
        first, last = split.shards[0].name, split.shards[-1].name
        names = first if first == last else f"{first} … {last}"
        records = counted(split.records, "record") + share(split, manifest.records)
        lines.append(f"  {split.name:<{width}} {records}: {names}")
    return [*lines, *split_classes(manifest.splits)]


def _schema_line(manifest: Manifest, options: ConvertOptions) -> str:
    features = counted(len(manifest.features), "feature")
    if not manifest.features:
        return "none: not all records are tf.train.Examples of features of one kind"
    if options.schema is not None:
        return f"{options.schema}, {features}"
    return f"inferred from {counted(manifest.rows.read, 'row')}, {features}"


def _feature_lines(manifest: Manifest) -> list[str]:
    """One line a feature; the first ones of a long list."""
    shown = manifest.features[:SHOWN_FEATURES]
    keys = [key_text(feature.key) for feature in shown]
    width = max(map(len, keys), default=0)
    lines = [f"    {key:<{width}}  {_describe(f)}" for key, f in zip(keys, shown, strict=True)]
    more = len(manifest.features) - len(shown)
    return [*lines, f"    … and {more:,} more"] if more else lines


def _describe(feature: FeatureFacts) -> str:
    shape = f" {list(feature.shape)}" if feature.shape else " [...]" * feature.ragged
    notes = {"omit": ", left out where missing", "default": ", default where missing", "error": ""}
    labels = "" if feature.labels is None else f", {counted(len(feature.labels), 'label')}"
    labels += f" from {feature.first_label}" if feature.first_label else ""
    return f"{feature.type}{shape}{labels}{notes[feature.missing]}"

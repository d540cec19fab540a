"""JSON lines as a tfrec source: one JSON object a line, one partition a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.json
from pydantic import BaseModel, ConfigDict, Field

from tfrec_cli.errors import SourceError
from tfrec_cli.sources.base import Column, Needs, Origin, Partition, SourceBatch, Survey
from tfrec_cli.sources.files import expand_inputs, fingerprint


class Options(BaseModel):
    """The options of this source, as `tfrec sources` lists them and `-O` sets them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    block: int = Field(16 * 2**20, ge=64, description="Bytes parsed at a time, over one line.")


class JsonLinesSource:
    """Reads JSON lines (see `tfrec_cli.sources.base.Source`)."""

    name: ClassVar[str] = "jsonlines"
    summary: ClassVar[str] = "JSON lines: one object a line."
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    Options: ClassVar[type[BaseModel]] = Options

    def __init__(self, inputs: Sequence[Any], options: BaseModel) -> None:
        self.inputs = tuple(inputs)
        self.options = Options.model_validate(options.model_dump())

    def survey(self, needs: Needs) -> Survey:
        """Read every file once, for its columns, rows and nulls."""
        listed = expand_inputs(self.inputs, self.suffixes, needs.temp_dir)
        tables = [(path, self._parse(path)) for path in listed.files]
        try:
            merged = pa.concat_tables([t for _, t in tables], promote_options="permissive")
        except pa.ArrowException as error:
            raise SourceError(f"{listed.files[0]} and others differ: {error}.") from error
        if not merged.num_rows:
            raise SourceError(f"{listed.files[0]}: has no rows, so there is nothing to convert.")
        schema = merged.schema
        return Survey(
            columns=tuple(
                Column(name, schema.field(name).type, merged.column(name).null_count > 0)
                for name in schema.names
            ),
            partitions=tuple(
                Partition(path, 0, table.num_rows, table.nbytes, schema) for path, table in tables
            ),
            fingerprints=tuple(fingerprint(path) for path in listed.files),
            notices=listed.notices,
            options=self.options.model_dump(),
        )

    def read(self, partition: Partition, columns: Sequence[str]) -> Iterator[SourceBatch]:
        """The rows of one file, in the types that the survey found over all files."""
        table = self._parse(partition.file, partition.detail)
        whole = pa.concat_tables([partition.detail.empty_table(), table], promote_options="default")
        row = 0
        for batch in whole.to_batches():
            arrays = [batch.column(name) for name in columns]
            data = pa.RecordBatch.from_arrays(arrays, list(columns))
            if not columns:
                data = pa.RecordBatch.from_struct_array(pa.array([{}] * len(batch), pa.struct([])))
            yield SourceBatch(data, Origin(partition.file, row))
            row += batch.num_rows

    def _parse(self, path: str, schema: pa.Schema | None = None) -> pa.Table:
        try:
            return pyarrow.json.read_json(
                path,
                pyarrow.json.ReadOptions(block_size=self.options.block, use_threads=False),
                pyarrow.json.ParseOptions(explicit_schema=schema),
            )
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"{path}: is not JSON lines ({error}).") from error

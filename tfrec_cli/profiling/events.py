"""A run as scalars over time in a TensorBoard event file.

An event file is a TFRecord file of `tensorflow.Event` messages, the first of which names the
version `brain.Event:2` (tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto).
Their classes are built at run time in a pool of their own, as those of Example are.
"""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Iterator
from typing import Any

from tfrec_cli._kernel import masked_crc32c
from tfrec_cli.accounts import Account, replacing
from tfrec_cli.dataset.failures import writing
from tfrec_cli.profiling.figures import Profile

# Points of a curve at most, and seconds between them at least.
_POINTS = 200
_STEP = 0.05


def write_events(profile: Profile, folder: str) -> str:
    """Write `profile` to a new event file in `folder`, which is made; returns the file's path.

    Scalars, a point each step of a run: `STAGE/MB_per_s` handled, `STAGE/threads` at work on
    average, `memory/MiB`. Raises DatasetError where it cannot be written.
    """
    with writing(folder, "folder"):
        os.makedirs(folder, exist_ok=True)
    name = f"events.out.tfevents.{int(profile.began_at)}.{socket.gethostname()}.{os.getpid()}.tfrec"
    path = os.path.join(folder, name)
    with replacing(path, "wb") as file:
        for event in _events(profile):
            file.write(_framed(event.SerializeToString()))
    return path


def events_account(folder: str) -> Account:
    """The folder of event files as `--profile-tensorboard` names it."""
    return Account("--profile-tensorboard", folder, "folder", None)


def _events(profile: Profile) -> Iterator[Any]:
    make = _event_class()
    yield make(wall_time=profile.began_at, file_version="brain.Event:2")
    step = max(_STEP, profile.seconds / _POINTS)
    curves = [*_stage_curves(profile, step), ("memory/MiB", _memory_curve(profile, step))]
    for number in range(_steps(profile, step)):
        event = make(wall_time=profile.began_at + (number + 1) * step, step=number)
        for tag, points in curves:
            if number in points:
                event.summary.value.add(tag=tag, simple_value=points[number])
        yield event


def _steps(profile: Profile, step: float) -> int:
    return int(profile.seconds / step) + 1


def _stage_curves(profile: Profile, step: float) -> Iterator[tuple[str, dict[int, float]]]:
    """For each stage what it handled in each step; a long span is spread over its steps."""
    last = _steps(profile, step) - 1
    for figures in profile.stages:
        rates, threads = dict.fromkeys(range(last + 1), 0.0), dict.fromkeys(range(last + 1), 0.0)
        for span in profile.spans:
            if span.stage != figures.stage:
                continue
            start, stop = span.start - profile.began, span.stop - profile.began
            first, final = (min(int(at / step), last) for at in (start, stop))
            for number in range(first, final + 1):
                inside = min(stop, (number + 1) * step) - max(start, number * step)
                share = inside / (stop - start) if stop > start else 1 / (final - first + 1)
                rates[number] += span.size * share / step / 1e6
                threads[number] += span.wall * share / step
        yield f"{figures.stage}/MB_per_s", rates
        yield f"{figures.stage}/threads", threads


def _memory_curve(profile: Profile, step: float) -> dict[int, float]:
    return {int(sample.at / step): sample.memory / 2**20 for sample in profile.samples}


def _framed(data: bytes) -> bytes:
    """One record of a TFRecord file: length and data, each with its masked CRC-32C."""
    length = len(data).to_bytes(8, "little")
    check, data_check = (masked_crc32c(part).to_bytes(4, "little") for part in (length, data))
    return b"".join((length, check, data, data_check))


@functools.cache
def _event_class() -> Any:
    """The class of Event messages with the fields that are used here."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="tfrec_event.proto", package="tfrec_event")
    value = file.message_type.add(name="Value")
    value.field.add(name="tag", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    value.field.add(
        name="simple_value", number=2, type=kinds.TYPE_FLOAT, label=kinds.LABEL_OPTIONAL
    )
    summary = file.message_type.add(name="Summary")
    summary.field.add(
        name="value", number=1, type=kinds.TYPE_MESSAGE, type_name=".tfrec_event.Value",
        label=kinds.LABEL_REPEATED,
    )  # fmt: skip
    event = file.message_type.add(name="Event")
    for name, number, kind in (("wall_time", 1, kinds.TYPE_DOUBLE), ("step", 2, kinds.TYPE_INT64),
                               ("file_version", 3, kinds.TYPE_STRING)):  # fmt: skip
        event.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    event.field.add(
        name="summary", number=5, type=kinds.TYPE_MESSAGE, type_name=".tfrec_event.Summary",
        label=kinds.LABEL_OPTIONAL,
    )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tfrec_event.Event"))

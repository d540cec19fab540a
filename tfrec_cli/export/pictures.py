"""Pictures as files in class folders, named as the records say and never outside of DEST."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfrec_cli.errors import DatasetError, UsageError, did_you_mean, shorten
from tfrec_cli.reading import FeatureInfo, Part
from tfrec_cli.sources.imageheader import image_format

IMAGES = ("image/encoded", "image", "image_raw", "jpeg", "png")
FILENAME = ("image/filename", "image/source_id", "image/key/sha256")
CLASS, LABELS = "image/class/text", ("image/class/label", "label")
# Endings of a format; the first is that of a file whose name has none of them.
_ENDINGS = {
    "jpeg": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "png": (".png",),
    "gif": (".gif",),
    "bmp": (".bmp",),
    "webp": (".webp",),
    "avif": (".avif",),
    "tiff": (".tiff", ".tif"),
}
_LONGEST = 200
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"|?*\\]')


@dataclass(frozen=True, slots=True)
class PictureFeatures:
    """The features that pictures are made of; None where there is none of the kind."""

    image: str
    filename: str | None
    folder: str | None
    label: FeatureInfo | None

    @property
    def keys(self) -> tuple[str, ...]:
        """All of them."""
        label = None if self.label is None else self.label.key
        found = (self.image, self.filename, self.folder, label)
        return tuple(dict.fromkeys(key for key in found if key is not None))


def picture_features(path: str, features: Mapping[str, FeatureInfo]) -> PictureFeatures:
    """The features that hold pictures, names and classes, by the names that image tools use.

    Raises UsageError where there are no pictures.
    """
    found = next((key for key in IMAGES if _is(key, features)), None)
    if found is None:
        _refuse_lists(path, features)
        texts = [key for key, one in features.items() if one.kind == "bytes"]
        hint = did_you_mean(IMAGES[0], texts)
        wanted = f"no feature is called {', '.join(IMAGES)}"
        raise UsageError(f"{shorten(path, 1000)}: {wanted}, as those with pictures are.{hint}")
    filename = next((key for key in FILENAME if _is(key, features)), None)
    folder = CLASS if _is(CLASS, features) else None
    labels = [features[key] for key in LABELS if key in features]
    label = next((one for one in labels if one.kind == "int64" and not one.is_list), None)
    return PictureFeatures(found, filename, folder, None if folder else label)


def _refuse_lists(path: str, features: Mapping[str, FeatureInfo]) -> None:
    """Raise UsageError where a feature that pictures are in has other than one in each record."""
    for key in IMAGES:
        if key in features and features[key].kind == "bytes":
            raise UsageError(
                f"{shorten(path, 1000)}: feature {key} is a list, bytes "
                f"{features[key].layout()}, and a picture is one value in each record."
            )


def _is(key: str, features: Mapping[str, FeatureInfo]) -> bool:
    return key in features and features[key].kind == "bytes" and not features[key].is_list


class PictureFolder:
    """Writes pictures below `top`. records: written so far, bytes: theirs. lacking: records that
    have no picture.
    """

    def __init__(self, top: Path, features: PictureFeatures) -> None:
        self._top, self._features = top, features
        self._made: set[Path] = set()
        self._next: dict[tuple[Path, str], int] = {}
        self.records = self.bytes = self.lacking = 0

    def write(self, part: Part) -> None:
        """Write the pictures of a run of records, in order."""
        columns = [self._values(part, key) for key in self._columns()]
        for row, (image, filename, folder) in enumerate(zip(*columns, strict=True)):
            if image is None:
                self.lacking += 1
                continue
            number = part.number(row)
            stem = f"{Path(part.target.path).name.partition('.')[0]}-{number:06d}"
            self._write(self._folder(folder), file_name(filename, stem, image), image)

    def _columns(self) -> tuple[str | None, str | None, str | None]:
        one = self._features
        folder = one.folder or (one.label.key if one.label else None)
        return one.image, one.filename, folder

    def _values(self, part: Part, key: str | None) -> list[Any]:
        if key is None:
            return [None] * part.batch.num_rows
        return list(part.batch.column(key).to_pylist())

    def _folder(self, value: Any) -> Path:
        """The folder of a class; DEST itself where there is none."""
        if value is None:
            return self._top
        label = self._features.label
        if isinstance(value, int):
            first, names = (label.first_label, label.labels or ()) if label else (0, ())
            known = 0 <= value - first < len(names)
            text = names[value - first] if known else str(value)
        else:
            text = value.decode("utf-8", "replace")
        return self._top / safe_name(text.replace("/", "_"), "unnamed")

    def _write(self, folder: Path, name: str, data: bytes) -> None:
        if folder not in self._made:
            folder.mkdir(parents=True, exist_ok=True)
            self._made.add(folder)
        stem, suffix = os.path.splitext(name)
        while True:
            number = self._next.get((folder, name), 1)
            path = folder / (name if number == 1 else f"{stem}-{number}{suffix}")
            try:
                # The file system knows which names are one to it.
                with open(path, "xb") as file:
                    file.write(data)
                break
            except FileExistsError:
                self._next[folder, name] = number + 1
        self.records += 1
        self.bytes += len(data)


def file_name(given: bytes | None, stem: str, data: bytes) -> str:
    """The name of a picture's file: the base name of `given`, else `stem`, with the ending that
    its bytes call for.
    """
    text = (given or b"").decode("utf-8", "replace").replace("\\", "/")
    name = safe_name(text.rstrip("/").rpartition("/")[2], stem)
    if (kind := image_format(data[:32])) is None:
        return name if "." in name else f"{name}.bin"
    endings = _ENDINGS[kind]
    return name if name.lower().endswith(endings) else f"{name}{endings[0]}"


def safe_name(text: str, otherwise: str) -> str:
    """`text` as a name that any file system takes, is not hidden, and leads nowhere else."""
    plain = _UNSAFE.sub("_", text).replace("/", "_").strip().strip(".").lstrip("_")
    stem, suffix = os.path.splitext(plain)
    room = _LONGEST - len(suffix.encode("utf-8", "replace"))
    short = stem.encode("utf-8", "replace")[: max(1, room)].decode("utf-8", "ignore")
    name = f"{short}{suffix}" if room > 0 else short
    return otherwise if not name or _RESERVED.fullmatch(name) else name


def refuse_none(path: str, records: int) -> None:
    """Raise DatasetError where not one record had a picture."""
    if not records:
        raise DatasetError(f"{shorten(path, 1000)}: no record has a picture. Nothing was written.")

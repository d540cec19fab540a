"""Which folders of an image tree are splits and which are classes."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tfrec_cli.errors import SourceError
from tfrec_cli.sources.files import (
    Walk,
    by_suffix,
    byte_order,
    counted,
    display,
    expand_inputs,
    some,
    sorted_paths,
    walk,
    walk_notices,
)
from tfrec_cli.sources.suffixes import IMAGE_SUFFIXES

SPLIT_NAMES = frozenset(
    ("train", "training", "val", "valid", "validation", "dev", "eval", "test", "testing")
)


@dataclass(frozen=True, slots=True)
class ImageEntry:
    """The path of one image file with its class and split, where the layout has them."""

    path: str
    group: str | None = None
    split: str | None = None


@dataclass(frozen=True, slots=True)
class ImageTree:
    """The images of one input, in the byte order of their paths.

    classes: for each split (None without splits) its class folders, empty ones included.
    notices: what was passed over.
    """

    root: str
    images: tuple[ImageEntry, ...]
    classes: dict[str | None, tuple[str, ...]]
    notices: tuple[str, ...] = ()


def plant(inputs: Sequence[str], layout: str, temp_dir: str | None) -> tuple[ImageTree, ...]:
    """One tree for each folder among `inputs`, and one for all files named by themselves.

    layout: `auto`, `class`, `split` or `flat`. Files named by themselves have no class, or with
    `class` that of the folder they lie in. Raises SourceError naming an input without images.
    """
    folders = [item for item in inputs if os.path.isdir(item)]
    single = [item for item in inputs if not os.path.isdir(item)]
    trees = [_folder(item, layout) for item in dict.fromkeys(folders)]
    if layout == "auto" and len(trees) > 1 and not any(tree.classes for tree in trees):
        shown = some(tree.root for tree in trees)
        unlabelled = (
            f"no class folders in {shown}, so the images have no labels; to have these folders as "
            "classes, name the folder above them"
        )
        trees[0] = replace(trees[0], notices=(*trees[0].notices, unlabelled))
    if single:
        trees.append(_single(single, layout, temp_dir))
    return tuple(trees)


def _single(inputs: Sequence[str], layout: str, temp_dir: str | None) -> ImageTree:
    listed = expand_inputs(inputs, IMAGE_SUFFIXES, temp_dir)
    parents = [os.path.dirname(os.path.abspath(path)) for path in listed.files]
    groups = [os.path.basename(p) if layout == "class" else None for p in parents]
    images = tuple(map(ImageEntry, listed.files, groups))
    found = tuple(dict.fromkeys(g for g in groups if g is not None))
    root = os.path.relpath(os.path.commonpath(parents))
    return ImageTree(root, images, {None: found}, listed.notices)


def _folder(root: str, layout: str) -> ImageTree:
    tree = walk(root)
    images, strays = by_suffix(tree.files, IMAGE_SUFFIXES)
    # A link to an image that is gone is a row that fails, as an unreadable image is.
    lost, broken = by_suffix(tree.broken, IMAGE_SUFFIXES)
    if not images and not lost:
        held = f"only {some(strays)}" if strays else "nothing"
        raise SourceError(
            f"{display(root)}: holds no image ({', '.join(IMAGE_SUFFIXES)}); found {held}. "
            "Name the folder that holds the class folders or the images."
        )
    files = sorted_paths(images + lost)
    kept = Walk(hidden=tree.hidden, broken=tuple(broken), odd=tree.odd, again=tree.again)
    return _arranged(root, files, tree.folders, layout, walk_notices(root, kept, strays))


def _arranged(
    root: str,
    files: Sequence[str],
    folders: Sequence[str],
    layout: str,
    notices: tuple[str, ...],
) -> ImageTree:
    parts = [_parts(root, path) for path in files]
    inside = [_parts(root, folder) for folder in folders]
    tops = [folder[0] for folder in inside if len(folder) == 1]
    if layout == "auto":
        layout = _layout(root, tops, parts)
    if layout == "flat":
        return ImageTree(root, tuple(map(ImageEntry, files)), {}, notices)
    classed = layout == "class" or any(len(p) > 2 for p in parts)
    depth = 2 if layout == "split" and classed else 1
    placed = [(f, p) for f, p in zip(files, parts, strict=True) if len(p) > depth]
    outside = [f for f, p in zip(files, parts, strict=True) if len(p) <= depth]
    if not placed:
        raise SourceError(
            f"{display(root)}: all images lie at the top, in no {layout} folder. "
            "Use -O layout=flat."
        )
    return ImageTree(
        root,
        tuple(_entry(f, p, layout == "split", classed) for f, p in placed),
        _classes(inside, layout == "split") if classed else {},
        (*notices, *_oddities(root, layout, inside, outside)),
    )


def _parts(root: str, path: str) -> list[str]:
    """The names that lead from `root` to `path`, which `walk` made by joining them."""
    return path[len(root) :].lstrip("/").split("/")


def _layout(root: str, tops: Sequence[str], parts: Sequence[list[str]]) -> str:
    """`split` where every folder at the top is called as a split; `class` where images lie in
    folders at the top; else `flat`. Raises SourceError where most images lie beside folders.
    """
    below = sum(len(part) > 1 for part in parts)
    if not below:
        return "flat"
    if below < len(parts) - below:
        raise SourceError(
            f"{display(root)}: {counted(len(parts) - below, 'image')} beside folders that hold "
            f"only {below:,}. Say -O layout=flat if the folders are not classes, else layout=class."
        )
    return "split" if all(name.lower() in SPLIT_NAMES for name in tops) else "class"


def _entry(path: str, parts: list[str], splits: bool, classed: bool) -> ImageEntry:
    split = parts[0] if splits else None
    return ImageEntry(path, parts[1 if splits else 0] if classed else None, split)


def _classes(inside: Sequence[list[str]], splits: bool) -> dict[str | None, tuple[str, ...]]:
    found: dict[str | None, list[str]] = {}
    for folder in inside:
        if len(folder) == (2 if splits else 1):
            found.setdefault(folder[0] if splits else None, []).append(folder[-1])
    return {split: tuple(names) for split, names in found.items()}


def _oddities(
    root: str, layout: str, inside: Sequence[list[str]], outside: Sequence[str]
) -> Iterator[str]:
    shown, tops = display(root), [folder[0] for folder in inside if len(folder) == 1]
    if outside:
        what = counted(len(outside), "image")
        yield f"{shown}: {what} in no {layout} folder skipped: {some(outside)}"
    above = {folder[0] for folder in inside if len(folder) > 1}
    splits = [name for name in tops if name.lower() in SPLIT_NAMES]
    if layout == "class" and (len(splits) > 1 or above.intersection(splits)):
        others = some(name for name in tops if name not in splits)
        yield (
            f"{shown}: called like a split, but beside {others} taken as a class: "
            f"{', '.join(splits)}; say -O layout=split if the folders are splits"
        )
    if layout == "split":
        yield f"{shown}: the folders {', '.join(map(display, tops))} are taken as splits"


def class_names(trees: Sequence[ImageTree]) -> tuple[str, ...]:
    """All classes of all splits in the order of their numbers.

    Raises SourceError naming a class folder whose name is not UTF-8.
    """
    names = {n for tree in trees for listed in tree.classes.values() for n in listed}
    for name in sorted(names, key=byte_order):
        if not _is_label(name):
            raise SourceError(
                f"class folder {display(name)}: the name is not UTF-8 text on one line, so no "
                "label can be made of it. Rename it."
            )
    if all(re.fullmatch(r"-?[0-9]+", name) for name in names):
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    return tuple(sorted(names, key=byte_order))


def _is_label(name: str) -> bool:
    try:
        return bool(name.encode()) and not re.search(r"[\r\n]", name)
    except UnicodeEncodeError:
        return False


def notices(trees: Sequence[ImageTree], names: Sequence[str]) -> Iterator[str]:
    """What was passed over, and the classes without an image: in all, or in one split."""
    for tree in trees:
        yield from tree.notices
    seen = {(image.split, image.group) for tree in trees for image in tree.images}
    empty = [name for name in names if not any(group == name for _, group in seen)]
    if empty:
        listed = ", ".join(f"{name} ({names.index(name)})" for name in empty)
        yield f"{counted(len(empty), 'class')} without an image, keeping the number: {listed}"
    for group in alike(names):
        yield f"the classes {', '.join(group)} differ in the case or form of letters only"
    splits = sorted({split for split, _ in seen if split is not None})
    for split in splits:
        lacking = [n for n in names if n not in empty and (split, n) not in seen]
        if lacking:
            yield f"split {split} has no image of {counted(len(lacking), 'class')}: " + ", ".join(
                lacking
            )


def alike(names: Sequence[str]) -> list[list[str]]:
    """The names that differ in the case or form of letters, or in blanks around, only."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(unicodedata.normalize("NFKC", name).casefold().strip(), []).append(name)
    return [group for group in found.values() if len(group) > 1]

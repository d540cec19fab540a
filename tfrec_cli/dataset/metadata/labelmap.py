"""Label maps of the Object Detection API: StringIntLabelMap in text form, ids from 1."""

from __future__ import annotations

from tfrec_cli.dataset.manifest import FeatureFacts, Manifest
from tfrec_cli.dataset.metadata.textformat import Fields, text_of
from tfrec_cli.errors import UsageError, key_text, listed

LABEL_MAP = "label_map.pbtxt"


def describe(manifest: Manifest) -> tuple[dict[str, str], list[str]]:
    """`label_map.pbtxt`; where several features have labels, one file for each, named after it.

    Raises UsageError where no feature's labels can be in one: ids are the numbers in the records,
    which are not shifted, and 0 is kept for the background.
    """
    labelled = [facts for facts in manifest.features if facts.labels]
    fit = [facts for facts in labelled if facts.first_label >= 1]
    if not labelled:
        raise UsageError(
            "label-map: no feature has labels. Give it some in the schema (labels: …)."
        )
    if not fit:
        names = listed([key_text(facts.key) for facts in labelled], 5)
        raise UsageError(
            f"label-map: the labels of {names} count from {labelled[0].first_label}, and ids of "
            "label maps from 1 (0 is the background). Say first_label: 1 in the schema, and "
            "convert again."
        )
    files = {_name(facts, len(fit)): text_of(_items(facts)) for facts in fit}
    left = [key_text(facts.key) for facts in labelled if facts not in fit]
    said = f"label-map: none for {listed(left, 5)}, whose labels count from 0"
    return files, [said] if left else []


def _name(facts: FeatureFacts, count: int) -> str:
    if count == 1:
        return LABEL_MAP
    stem = "".join(c if c.isalnum() or c in "-_" else "." for c in facts.key).lstrip(".")
    return f"{stem.replace('.tfrec', '_tfrec')[:200]}.{LABEL_MAP}"


def _items(facts: FeatureFacts) -> Fields:
    labels = enumerate(facts.labels or (), facts.first_label)
    return [("item", [("id", number), ("name", name)]) for number, name in labels]

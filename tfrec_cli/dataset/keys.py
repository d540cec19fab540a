"""Keys of features that other programs take."""

from __future__ import annotations

from collections.abc import Iterable

from tfrec_cli.dataset.manifest import FeatureFacts
from tfrec_cli.errors import UsageError, key_text


def refuse_odd_keys(features: Iterable[FeatureFacts], reader: str) -> None:
    """Raise UsageError where a key is not UTF-8. reader: who takes no others."""
    for facts in features:
        if not _is_utf8(facts.key):
            raise UsageError(
                f"the key of feature {key_text(facts.key)} is not UTF-8, and {reader} takes no "
                "others. `tfrec convert --schema` with the other features leaves it out."
            )


def _is_utf8(key: str) -> bool:
    # Bytes that are not UTF-8 are surrogates.
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True

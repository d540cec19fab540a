"""From the columns of a source to the values of features: the door of the room."""

from tfrec_cli.casting.features import Cast, cast
from tfrec_cli.casting.values import CastFault

__all__ = ["Cast", "CastFault", "cast"]

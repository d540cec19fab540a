"""From the columns of a source to the values of features: the door of the room."""

from tfrec_cli.casting.features import Cast, cast

__all__ = ["Cast", "cast"]

"""The options of the boxes source: those of CSV, the names of the columns, what boxes mean."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, create_model, field_validator, model_validator

from tfrec_cli.sources.csv_options import CsvOptions

EDGES = ("xmin", "ymin", "xmax", "ymax")
NEEDED = ("filename", "class", *EDGES)
SIZES = ("width", "height")
ROLES = ("filename", *SIZES, "class", *EDGES)


class BoxSettings(CsvOptions):
    """All options of the boxes source but `class`, a name that Python keeps for itself."""

    filename: str = Field("filename", description="the column that names the picture's file")
    width: str | None = Field(
        "width",
        description="the column with the picture's width in pixels, which is compared with the "
        "picture where the table has it; none: do not compare",
    )
    height: str | None = Field("height", description="the same for the height")
    xmin: str = Field("xmin", description="the column with the box's left edge")
    ymin: str = Field("ymin", description="the column with the box's upper edge")
    xmax: str = Field("xmax", description="the column with the box's right edge")
    ymax: str = Field("ymax", description="the column with the box's lower edge")
    coordinates: Literal["pixels", "relative"] | None = Field(
        None,
        description="what edges are counted in: pixels, or relative to the picture's size, from "
        "0 to 1. By default pixels",
    )
    bad_box: Literal["error", "drop", "clip"] = Field(
        "error",
        description="a box without area, or that reaches out of its picture: an error of the "
        "picture's record, or drop the box and keep the picture, or clip what reaches out and "
        "drop what has no area",
    )
    check: Literal["header", "full"] = Field(
        "header",
        description="how far each picture is checked: its header, or every pixel (finds cut files)",
    )

    @field_validator("width", "height", mode="before")
    @classmethod
    def _none(cls, value: Any) -> Any:
        return None if value in ("", "none") else value

    @model_validator(mode="after")
    def _one_role_a_column(self) -> BoxSettings:
        seen: dict[str, str] = {}
        for role in ROLES:
            name = getattr(self, role, None)
            if name is not None and name in seen:
                raise ValueError(f'"{name}" is given for {seen[name]} and for {role}')
            if name is not None:
                seen[name] = role
        return self

    @property
    def relative(self) -> bool:
        """Whether edges are parts of the picture's size."""
        return self.coordinates == "relative"

    def column(self, role: str) -> str | None:
        """The name of the column for one of ROLES; None where the user wants none."""
        name: str | None = getattr(self, role)
        return name

    def asks(self, role: str) -> bool:
        """Whether a table without the column for `role` cannot be read."""
        return role in NEEDED or (role in self.model_fields_set and self.column(role) is not None)

    def saved(self, delimiter: str | None) -> dict[str, Any]:
        """As for CSV, with the columns' names, and the coordinates even where nobody said them."""
        found = super().saved(delimiter)
        unsaid = {key: "none" for key in SIZES if self.column(key) is None}
        return found | unsaid | {"coordinates": self.coordinates or "pixels"}


_class: Any = {"class": (str, Field("class", description="the column that names what is boxed"))}
BoxOptions: type[BoxSettings] = create_model(
    "BoxOptions",
    __base__=BoxSettings,
    __module__=__name__,
    __doc__="How box tables are read.",
    **_class,
)

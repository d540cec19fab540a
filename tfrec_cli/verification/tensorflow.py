"""What TensorFlow does about each kind of damage, as seen with version 2.21."""

from __future__ import annotations

from tfrec_cli.records.blocks import Damage
from tfrec_cli.records.framing import Container
from tfrec_cli.records.streams import Fault

_INFLATE = "inflate() failed with error -3"
_FAULTS = {
    "compressed data": f'DataLossError "{_INFLATE}", without the records of that buffer',
    "header": f'DataLossError "{_INFLATE}"',
    "empty member": "stops there without an error; the records that follow are lost",
}


def of_damage(damage: Damage) -> str:
    """For one record."""
    if damage.kind == "truncated":
        if damage.in_header:
            return "stops there without an error"
        return f'DataLossError "truncated record at {damage.offset}"'
    if damage.kind == "too large":
        return "reads the record, and fails to parse it"
    at = damage.offset + (12 if damage.kind == "data checksum" else 0)
    first = " (Is this even a TFRecord file?)" if at == 0 else ""
    return f'DataLossError "corrupted record at {at}{first}"'


def of_fault(fault: Fault, container: Container) -> str:
    """For what surrounds the records."""
    if fault.kind == "trailer":
        if "are there" in fault.text:
            return "reads all records without an error"
        return f'DataLossError "{_INFLATE}: incorrect data check"'
    if fault.kind == "trailing data":
        if container == "zlib":
            return "ignores them without an error"
        return f'DataLossError "{_INFLATE}: incorrect header check", after the records'
    return _FAULTS.get(fault.kind, "")


def of_compression(found: Container, promised: Container) -> str:
    """For a reader that believes the file's name."""
    if promised == "none":
        return 'DataLossError "corrupted record at 0 (Is this even a TFRecord file?)"'
    said = f'read as {promised.upper()}: DataLossError "{_INFLATE}: incorrect header check"'
    return f"{said}; read as {found.upper()}, all records" if found != "none" else said


def of_kind(feature: str, found: str, expected: str) -> str:
    """For a feature of another kind, once it is parsed."""
    types = f"Data type: {_DTYPES[found]} but expected type: {_DTYPES[expected]}"
    return f'InvalidArgumentError "Key: {feature}. Data types don\'t match. {types}"'


def of_presence(feature: str, kind: str) -> str:
    """For a feature that is not there, once it is parsed as FixedLenFeature without a default."""
    said = f"Feature: {feature} (data type: {_DTYPES[kind]}) is required but could not be found"
    return f'InvalidArgumentError "{said}"'


def of_shape(feature: str, kind: str, count: int, shape: tuple[int, ...]) -> str:
    """For a list of another length than its shape's, once it is parsed in a batch."""
    if kind == "bytes":
        return f'InvalidArgumentError "Key: {feature}. Can\'t parse serialized Example"'
    sizes = f"Values size: {count} but output shape: [{','.join(map(str, shape))}]"
    return (
        f'InvalidArgumentError "Key: {feature}. '
        f'Number of {_DTYPES[kind]} values != expected. {sizes}"'
    )


_DTYPES = {"int64": "int64", "float": "float", "bytes": "string"}

"""tfrec: CSV and Parquet tables and image folders into TFRecord datasets, ready to train on."""

__version__ = "0.1.0"

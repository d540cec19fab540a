"""What a conversion would do, told from a sample of the rows, without writing anything."""

from tfrec_cli.estimates.forecast import Forecast, forecast

__all__ = ["Forecast", "forecast"]

"""What a profile of a run says, and the forms it is kept in."""

from tfrec_cli.profiling.events import events_account, write_events
from tfrec_cli.profiling.figures import Profile, StageFigures
from tfrec_cli.profiling.recorder import Recorder
from tfrec_cli.profiling.trace import trace_account, write_trace

__all__ = [
    "Profile", "Recorder", "StageFigures", "events_account", "trace_account", "write_events",
    "write_trace",
]  # fmt: skip

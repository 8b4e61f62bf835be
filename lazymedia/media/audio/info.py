"""`AudioInfo`: what is known of a clip, from its header or from its decode."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AudioInfo:
    """What is known of a clip.

    Before a decode the numbers are those of the header, which may be wrong; the last two are None. After a decode they
    are those of the decoded samples.

    Attributes:
        rate: Hz, of the clip itself, before any resampling.
        channels: Of the clip itself, before they are mixed.
        samples: Per channel, at `rate`. None where the header does not say.
        lost_samples: Samples per channel that are missing because the payload is damaged or cut, at least: as many as
            the time stamps, the declared length or the size of the damaged packets show. 0 for a sound clip, and where
            the format shows no number (an MPEG stream that was cut between two frames, for example).
        errors: Places where the decoder reported an error, or where the payload ends too early. A clip with 0 here and
            in `lost_samples` shows no damage.
    """

    rate: int
    channels: int
    samples: int | None
    lost_samples: int | None = None
    errors: int | None = None


__all__ = ["AudioInfo"]

"""``python -m lazymedia.cli``: the command line where no script was installed."""

from __future__ import annotations

import sys

from lazymedia.cli import main

sys.exit(main())

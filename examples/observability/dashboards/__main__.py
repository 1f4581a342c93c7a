"""Makes the example's two Grafana dashboards with Grafana's own typed library.

    pip install grafana-foundation-sdk==0.0.21          # for Grafana 13
    python examples/observability/dashboards            # writes grafana/dashboards/*.json
    python examples/observability/dashboards FOLDER     # writes them elsewhere

The JSON is checked in and never edited by hand: a test says that it is what this makes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from blame_board import blame_dashboard
from collector_board import collector_dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

HERE = Path(__file__).parents[1] / "grafana" / "dashboards"


def main(folder: Path = HERE) -> None:
    """Write both dashboards into *folder*, one file each, named by their uid."""
    for dashboard in (blame_dashboard(), collector_dashboard()):
        path = folder / f"{dashboard.uid}.json"
        path.write_text(JSONEncoder(sort_keys=True, indent=2).encode(dashboard) + "\n")
        print(path)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

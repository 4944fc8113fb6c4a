"""Write all objects of Superset as a bundle. It runs in Superset's environment.

`python dump.py FOLDER`
"""

import sys
from pathlib import Path

from superset.app import create_app


def main(folder: Path) -> None:
    """Write the files of the bundle below the folder."""
    app = create_app()
    with app.app_context():
        from superset import security_manager
        from superset.commands.export.assets import ExportAssetsCommand
        from superset.utils.core import override_user

        with override_user(security_manager.find_user("admin")):
            for path, content in ExportAssetsCommand().run():
                file = folder / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content())


if __name__ == "__main__":
    main(Path(sys.argv[1]))

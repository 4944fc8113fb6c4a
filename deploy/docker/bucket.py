"""Create the bucket of the warehouse unless it exists: `s3-bucket` of docker-compose.yml, once."""

from __future__ import annotations

import sys
from urllib.parse import urlsplit

from pyarrow.fs import FileType, S3FileSystem

from spark_jobs.settings import Settings, load_settings
from spark_jobs.settings_error import SettingsError


def create(settings: Settings) -> str:
    """Create the bucket of `warehouse.uri` if the store does not have it; return its name.

    Raises:
        SettingsError: the warehouse is not on S3, or its credentials are not in the environment.
        OSError: the store cannot be reached, or refuses.
    """
    warehouse = settings.warehouse
    if not warehouse.is_s3:
        raise SettingsError(
            f"the profile s3 is on, but the warehouse is {settings.warehouse_uri}: set TRACE_WAREHOUSE__URI in .env, such "
            "as s3://lake/rocketmq, or leave the profile out"
        )
    bucket = urlsplit(str(warehouse.uri)).netloc
    credentials = warehouse.s3_credentials()
    store = S3FileSystem(
        access_key=credentials.get("access-key-id"),
        secret_key=credentials.get("secret-access-key"),
        session_token=credentials.get("session-token"),
        region=warehouse.region,
        endpoint_override=warehouse.endpoint,
        force_virtual_addressing=not warehouse.path_style,
        allow_bucket_creation=True,
    )
    if store.get_file_info(bucket).type == FileType.NotFound:
        store.create_dir(bucket)
    return bucket


def main() -> int:
    settings = load_settings()
    try:
        print(f"bucket {create(settings)} exists at {settings.warehouse.endpoint or 'AWS'}")
    except SettingsError as error:
        print(f"failed: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(
            f"failed: the bucket of {settings.warehouse_uri} cannot be created: {error}. See whether the store runs, and "
            "S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY in .env",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

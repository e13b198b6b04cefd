"""Mangrove: many storages under mount paths, shown as one tree."""

import gc
import os
import sys

__version__ = "0.4.0"

NEW_OBJECTS = 100_000  # that a function's process makes before it looks for garbage: more than its first request needs

if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
    gc.set_threshold(NEW_OBJECTS)  # else each cold start looks hundreds of times where there is none
    from mangrove.core.stored_modules import use_stored_modules  # which a client does not need

    use_stored_modules()
    from mangrove.core.compiled_dataclasses import use_compiled_methods  # after that, since it imports more modules

    use_compiled_methods()

# botocore imports pyOpenSSL where it is installed, as it is for passkeys, and does not use it. The import takes 33 ms.
sys.modules.setdefault("urllib3.contrib.pyopenssl", None)  # type: ignore[arg-type]  # counts as not installed

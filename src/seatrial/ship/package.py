"""seatrial as one zip that Python imports from: `PYTHONPATH=/…/seatrial.zip python -m seatrial.driver`."""

from __future__ import annotations

import io
import zipfile
from functools import cache

from seatrial.driver.code import travelling

# A ConfigMap holds 1 MiB, but what `kubectl apply` keeps of it in an annotation is limited to 256 KiB, in base64.
LIMIT_BYTES = 180 << 10
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first moment that a zip can state
_MODE = 0o100644


@cache
def package() -> bytes:
    """The zip, made once a process: the same bytes for the same files.

    Sources are as they are, so that tracebacks keep their lines.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in travelling().items():
            entry = zipfile.ZipInfo(f"seatrial/{name}", _EPOCH)
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, _MODE << 16
            archive.writestr(entry, data, compresslevel=9)
    return buffer.getvalue()

"""The events of the copilot catalog as classes, for `match`, `isinstance` and for publishing.

```
match event.model:
    case AssistantMessageDeltaEvent(data=data):
        print(data.delta_content, end="")
```

Importing it loads them all, which takes a moment.
"""

from __future__ import annotations

import sessionwire_schemas._copilot as _models
from sessionwire_schemas._copilot import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary, reportPrivateUsage]

__all__ = _models.__all__  # pyright: ignore[reportUnsupportedDunderAll]

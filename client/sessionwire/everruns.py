"""The events of the everruns catalog as classes, for `match`, `isinstance` and for publishing.

```
match event.model:
    case OutputMessageDeltaEvent(data=data):
        print(data.delta, end="")
```

Importing it loads them all, which takes a moment.
"""

from __future__ import annotations

import sessionwire_schemas._everruns as _models
from sessionwire_schemas._everruns import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary, reportPrivateUsage]

__all__ = _models.__all__  # pyright: ignore[reportUnsupportedDunderAll]

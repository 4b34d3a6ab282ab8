// For programs that end without destroying their statics.

#pragma once

namespace kiln {

/// Closes the caches that this process has opened, when nobody uses them any more: what they
/// counted is added to the totals on disk. The end of a program does it too, unless it is `_Exit`.
void close_caches();

}  // namespace kiln

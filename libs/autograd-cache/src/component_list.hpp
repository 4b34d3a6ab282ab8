// The components of a key as bytes, in records and in the journal.

#pragma once

#include <span>
#include <vector>

#include "byte_stream.hpp"
#include "kiln/autograd_cache/key.hpp"

namespace kiln::autograd_cache {

void write_components(ByteWriter& writer, std::span<const KeyComponent> components);

/// Throws `Error` with `kCorrupt` where the bytes end too early or name a component twice.
[[nodiscard]] std::vector<KeyComponent> read_components(ByteReader& reader);

}  // namespace kiln::autograd_cache

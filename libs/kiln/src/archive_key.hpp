// What a compiled archive is kept by.

#pragma once

#include "kiln/autograd_cache/key.hpp"
#include "kiln/base/digest.hpp"
#include "kiln/codegen/compile.hpp"
#include "kiln/ir/types.hpp"
#include "kiln/jit/options.hpp"

namespace kiln {

/// The key of what an archive, by the digest of its file, is compiled to: the program is not read.
/// `device` is what code is generated for. Where `options` name none and the archive turns out to
/// be for another one, what is made of it must not be kept under this key.
[[nodiscard]] autograd_cache::Key key_of_archive(const Digest& archive,
                                                 const CompileOptions& options,
                                                 const codegen::Options& generator,
                                                 ir::DeviceType device);

}  // namespace kiln

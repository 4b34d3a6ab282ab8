#include "archive_key.hpp"

#include <string>

#include "kiln/jit/cache_use.hpp"

namespace kiln {

/// Of the sources that make an artifact of a program; CMake writes it.
extern const char* const kArtifactDigest;

autograd_cache::Key key_of_archive(const Digest& archive,
                                   const CompileOptions& options,
                                   const codegen::Options& generator,
                                   ir::DeviceType device) {
  return environment_key(generator, options.identity, device)
      .add("device", options.device)
      .add("archive", archive.hex())
      .add("writer", kArtifactDigest)
      .add("instances", std::to_string(options.instances))
      .build();
}

}  // namespace kiln

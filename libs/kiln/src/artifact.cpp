#include "artifact.hpp"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "folded_constants.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "kiln/base/pending_file.hpp"

namespace kiln {
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kRoomForLibrary = 1 << 20;  // Few are larger.
constexpr std::size_t kFewBytes = 16 << 20;

// Whether `text` lists operators for a proxy executor. Other programs write "nodes" too.
bool lists_extern_nodes(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto nodes = json.is_object() ? json.find("nodes") : json.end();
  return nodes != json.end() && nodes->is_array() &&
         std::ranges::all_of(*nodes, [](const nlohmann::json& node) {
           return node.is_object() && node.contains("name") && node.contains("node");
         });
}

// Where loaders look for the operators that a library calls through their proxy executor.
fs::path extern_nodes_beside(const fs::path& library) {
  const fs::path path = fs::path(library).replace_extension(".json");
  if (fs::exists(path) && !lists_extern_nodes(read_file(path))) {
    throw Error(ErrorCode::kInvalidArgument,
                "loaders of " + library.string() + " would read " + path.string() +
                    ", which is another file; move it, or name the library differently");
  }
  return path;
}

// Beside `out` until it is whole.
void write_library(const Artifact& artifact,
                   std::span<const codegen::ConstantData> folded,
                   const fs::path& out) {
  const auto overwrite = fs::copy_options::overwrite_existing;
  const bool has_extern_nodes = !artifact.library.extern_nodes.empty();
  const fs::path extern_nodes = extern_nodes_beside(out);
  const std::string suffix = ".tmp." + std::to_string(getpid());
  PendingFile pending(out.string() + suffix);
  fs::copy_file(artifact.library.path, pending.path(), overwrite);
  codegen::append_weights(pending.path(), artifact.constants, folded);
  if (has_extern_nodes) {
    PendingFile pending_nodes(extern_nodes.string() + suffix);
    fs::copy_file(artifact.library.extern_nodes, pending_nodes.path(), overwrite);
    pending_nodes.rename_to(extern_nodes);
  }
  pending.rename_to(out);
  if (!has_extern_nodes) {
    fs::remove(extern_nodes);  // Of a library that was here before.
  }
}

}  // namespace

StreamingWeightsWriter::StreamingWeightsWriter(const fs::path& out,
                                               std::span<const codegen::ConstantData> constants)
    : image_(kRoomForLibrary, constants) {
  std::size_t bytes = 0;
  for (const codegen::ConstantData& constant : constants) {
    bytes += constant.bytes.size();
  }
  // A folder is not made for what may fail yet.
  const fs::path folder = out.parent_path();
  if (out.extension() == ".pt2" && bytes >= kFewBytes && (folder.empty() || fs::exists(folder))) {
    const auto parts = image_.constants();
    package_.emplace(out, kRoomForLibrary, std::vector(parts.begin(), parts.end()));
  }
}

bool StreamingWeightsWriter::finish(container_runtime::PackageContents contents,
                                    std::span<const codegen::ConstantData> constants,
                                    std::span<const codegen::ConstantData> folded) {
  if (package_ && fs::file_size(contents.library) > kRoomForLibrary) {
    package_.reset();
  }
  if (!package_) {
    return false;
  }
  const codegen::WeightsImage image(kRoomForLibrary, constants, folded);
  contents.weights.assign(image.rest().begin(), image.rest().end());
  package_->finish(contents);
  return true;
}

void write_artifact(const Artifact& artifact,
                    const fs::path& out,
                    std::size_t instances,
                    StreamingWeightsWriter* ahead) {
  if (out.has_parent_path()) {
    fs::create_directories(out.parent_path());
  }
  const FoldedConstants folded(artifact.library.folding, artifact.constants);
  if (out.extension() == ".so") {
    write_library(artifact, folded.data(), out);
    return;
  }
  const fs::path& extern_nodes = artifact.library.extern_nodes;
  container_runtime::PackageContents contents{
      .library = artifact.library.path,
      .instances = instances,
      .source = artifact.library.source,
      .extern_nodes = extern_nodes.empty() ? "" : read_file(extern_nodes),
      .sample_inputs = artifact.sample_inputs};
  if (!artifact.device.empty()) {
    contents.device = artifact.device;
  }
  if (!artifact.specialisations.empty()) {
    contents.metadata.emplace("KILN_SPECIALISATIONS", artifact.specialisations);
  }
  if (!artifact.sizes.empty()) {
    contents.metadata.emplace("KILN_SIZES", artifact.sizes);
  }
  if (!artifact.library.plan.empty()) {
    contents.extra_files.emplace("plan.json", artifact.library.plan);
  }
  if (ahead == nullptr || !ahead->finish(contents, artifact.constants, folded.data())) {
    const codegen::WeightsImage weights(
        fs::file_size(artifact.library.path), artifact.constants, folded.data());
    contents.weights = weights.parts();
    container_runtime::write_package(out, contents);
  }
}

}  // namespace kiln

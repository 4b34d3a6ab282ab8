// The `.pt2` package: a stored zip with a model library in it, as AOTInductor lays it out.
//
// PyTorch's `torch._inductor.aoti_load_package` loads what is written here, and what it wrote can
// be opened here.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kiln::container_runtime {

/// A package that asks for more than so many instances is damaged. A host may.
inline constexpr std::size_t kMostInstances = 4096;

/// What goes into a package.
struct PackageContents {
  std::filesystem::path library = {};  ///< The model library,
  /// and what follows it in its file, if that is elsewhere: weights are then written once.
  std::vector<std::span<const std::byte>> weights = {};
  std::string model_name = "model";  ///< One package may hold several models.
  std::string device = "cpu";        ///< "cpu" or "cuda".
  std::size_t instances = 0;  ///< To be loaded with, if the host does not say; 0: one per core.
  std::map<std::string, std::string> metadata = {};  ///< Beside device, platform and machine.
  std::string source = {};                           ///< What it was compiled from, for readers.
  std::string extern_nodes = {};                     ///< JSON of the ops left to the host, if any.
  std::map<std::string, std::string> extra_files = {};  ///< Name to text (UTF-8), under `extra/`.
  std::string sample_inputs = {};  ///< Pickled tensors to run it on, where torch.export keeps them.
};

/// Writes a package; `path` then holds all of it or, where this throws, what it held before.
///
/// Throws `Error` with `kIo` if a file cannot be read or written.
void write_package(const std::filesystem::path& path, const PackageContents& contents);

/// A package whose weights are written while its library is still being made.
class PackageWriter {
 public:
  /// Begins to write `weights`, on a thread of its own, `room` bytes behind the beginning of the
  /// library of `model_name`. They must live as long as this does. Nothing is at `path` before
  /// `finish`, and what is beside it until then goes with this.
  PackageWriter(const std::filesystem::path& path,
                std::uint64_t room,
                std::vector<std::span<const std::byte>> weights,
                std::string model_name = "model");
  ~PackageWriter();
  PackageWriter(const PackageWriter&) = delete;
  PackageWriter& operator=(const PackageWriter&) = delete;

  /// Writes the rest: `contents.weights` are those behind the ones that were given before.
  ///
  /// Throws `Error`: `kIo` if a file cannot be read or written, `kInvalidArgument` if the library
  /// is larger than the room for it.
  void finish(const PackageContents& contents);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A model that was unpacked.
struct UnpackedModel {
  std::filesystem::path library;  ///< The model library.
  /// Set if the weights stayed in the package: from which of its bytes on they stand there.
  std::optional<std::uint64_t> weights_offset = {};
};

/// How a model is unpacked.
struct UnpackOptions {
  /// Compare the checksum of all of the library, and not of its code alone: reads the weights.
  bool verify_weights = false;
};

/// A package opened for reading. Nothing that it gives out is damaged: every file is compared with
/// its checksum, and of a model library with weights behind it at least the code.
class Package {
 public:
  /// Throws `Error`: `kIo` if `path` cannot be read, `kCorrupt` if it is not a package.
  explicit Package(const std::filesystem::path& path);
  ~Package();
  Package(Package&&) noexcept;             ///< Leaves the other empty.
  Package& operator=(Package&&) noexcept;  ///< Leaves the other empty.

  /// Every file in it, without the root folder.
  [[nodiscard]] const std::vector<std::string>& files() const;

  /// The models it holds, in order.
  [[nodiscard]] std::vector<std::string> model_names() const;

  /// What is known of a model: `AOTI_DEVICE_KEY`, `AOTI_MACHINE`, …
  [[nodiscard]] std::map<std::string, std::string> metadata(const std::string& model_name) const;

  /// The bytes of one file. Throws `Error` with `kCorrupt` if it is not there, or damaged.
  [[nodiscard]] std::string read(const std::string& file) const;

  /// Writes what is needed to run a model into `directory` and returns where its library is.
  ///
  /// Sources and objects stay in the package, and so do the weights of Kiln's own models, which can
  /// be mapped there. Throws `Error` with `kCorrupt` and the name of a file that is damaged.
  [[nodiscard]] UnpackedModel unpack(const std::string& model_name,
                                     const std::filesystem::path& directory,
                                     UnpackOptions options = {}) const;

 private:
  struct Archive;
  [[nodiscard]] const Archive& archive() const;
  std::unique_ptr<Archive> archive_;
};

/// Opens `path`; see `Package`.
[[nodiscard]] Package open_package(const std::filesystem::path& path);

}  // namespace kiln::container_runtime

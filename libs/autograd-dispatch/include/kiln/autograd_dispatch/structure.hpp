// What a value is made of besides its tensors.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kiln::autograd_dispatch {

/// Names of types, lengths, keys and numbers, in order: values of equal structure differ in their
/// tensors only. Plain text, to be compared, printed and kept.
struct Structure {
  std::string text = {};

  bool operator==(const Structure&) const = default;
};

/// Writes a structure from front to back.
class StructureWriter {
 public:
  void add_word(std::string_view word);  ///< Without a space in it.
  void add_integer(std::int64_t value);
  void add_number(double value);
  void add_string(std::string_view value);

  [[nodiscard]] Structure take() { return {std::move(text_)}; }

 private:
  std::string text_;
};

/// Reads one in the same order. Throws `Error` with `kInvalidArgument` where it finds something
/// else than what is asked for.
class StructureReader {
 public:
  /// `structure` must outlive it.
  explicit StructureReader(const Structure& structure) : rest_(structure.text) {}

  void expect_word(std::string_view word);
  [[nodiscard]] std::int64_t read_integer();
  [[nodiscard]] double read_number();
  [[nodiscard]] std::string read_string();
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

 private:
  std::string_view next();

  std::string_view rest_;
};

}  // namespace kiln::autograd_dispatch

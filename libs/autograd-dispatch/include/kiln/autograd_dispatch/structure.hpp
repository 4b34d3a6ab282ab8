// The structure of a value: everything except its tensors.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kiln::autograd_dispatch {

/// Names of types, lengths, keys and numbers, in order: values of equal structure differ only in
/// their tensors. Plain text, which can be compared, printed and stored.
struct Structure {
  std::string text = {};  ///< Words and values, separated by blanks.

  bool operator==(const Structure&) const = default;  ///< Member by member.
};

/// Writes a structure from front to back.
class StructureWriter {
 public:
  void add_word(std::string_view word);     ///< Adds a word without blanks.
  void add_integer(std::int64_t value);     ///< Adds an integer.
  void add_number(double value);            ///< Adds a number, exactly.
  void add_string(std::string_view value);  ///< Adds a string of any bytes.
  void add_symbolic_integer();              ///< Marks an integer that is not in the structure.

  [[nodiscard]] Structure take() { return {std::move(text_)}; }  ///< What was written.

 private:
  std::string text_;
};

/// Reads a structure in the same order. Throws `Error` with `kInvalidArgument` if it finds
/// something else than what is asked for.
class StructureReader {
 public:
  /// `integers` are those that are not in `structure`, in order. Both must outlive the reader.
  explicit StructureReader(const Structure& structure, std::span<const std::int64_t> integers = {})
      : rest_(structure.text), integers_(integers) {}

  /// Reads `word`; throws if the next word differs.
  void expect_word(std::string_view word);
  [[nodiscard]] std::int64_t read_integer();                   ///< Reads an integer.
  [[nodiscard]] double read_number();                          ///< Reads a number.
  [[nodiscard]] std::string read_string();                     ///< Reads a string.
  [[nodiscard]] bool at_end() const { return rest_.empty(); }  ///< Whether all was read.

 private:
  std::string_view next();

  std::string_view rest_;
  std::span<const std::int64_t> integers_;
};

}  // namespace kiln::autograd_dispatch

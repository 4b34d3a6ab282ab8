#include "serialized_provenance.hpp"

#include <cstddef>
#include <filesystem>

namespace kiln::exporter {
namespace {

std::string metadata_of(const Json& node, const char* key) {
  const auto metadata = node.find("metadata");
  if (metadata == node.end() || !metadata->is_object()) {
    return {};
  }
  const auto text = metadata->find(key);
  return text == metadata->end() || !text->is_string() ? std::string() : text->get<std::string>();
}

}  // namespace

// "fc1" of "L__self__,,Model;L__self___fc1,fc1,torch.nn.modules.linear.Linear".
std::string module_path_of(const Json& node) {
  const std::string text = metadata_of(node, "nn_module_stack");
  const std::size_t entry = text.rfind(';') == std::string::npos ? 0 : text.rfind(';') + 1;
  const std::size_t begin = text.find(',', entry);
  const std::size_t end = begin == std::string::npos ? begin : text.find(',', begin + 1);
  const std::string path = end == std::string::npos ? "" : text.substr(begin + 1, end - begin - 1);
  return path.starts_with('_') ? "" : path;
}

// The last line of the kind: File "model.py", line 42, in forward.
std::string source_of(const Json& node) {
  const std::string text = metadata_of(node, "stack_trace");
  const std::string opening = "File \"";
  const std::string middle = "\", line ";
  const std::size_t file = text.rfind(opening);
  const std::size_t line = file == std::string::npos ? file : text.find(middle, file);
  if (line == std::string::npos) {
    return {};
  }
  const std::size_t begin = file + opening.size();
  const std::size_t number = line + middle.size();
  const std::size_t end = text.find_first_not_of("0123456789", number);
  return std::filesystem::path(text.substr(begin, line - begin)).filename().string() + ":" +
         text.substr(number, end == std::string::npos ? end : end - number);
}

}  // namespace kiln::exporter

#include "text/code_writer.hpp"

namespace kiln::codegen {

CodeWriter& CodeWriter::line(std::string_view text) {
  if (!text.empty()) {
    text_.append(static_cast<std::size_t>(level_) * 2, ' ');
    text_ += text;
  }
  text_ += '\n';
  return *this;
}

CodeWriter& CodeWriter::directive(std::string_view text) {
  text_ += text;
  text_ += '\n';
  return *this;
}

CodeWriter& CodeWriter::verbatim(std::string_view text) {
  text_ += text;
  return *this;
}

CodeWriter& CodeWriter::open(std::string_view head) {
  line(head.empty() ? "{" : std::string(head) + " {");
  ++level_;
  return *this;
}

CodeWriter& CodeWriter::close(std::string_view closing) {
  --level_;
  return line(closing);
}

}  // namespace kiln::codegen

// Archives with a fault put in.

#pragma once

#include <caffe2/serialize/inline_container.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>

namespace kiln::exporter {

/// Copies an archive with one record edited, all of them compressed if so asked.
inline void edit_archive(const std::filesystem::path& from,
                         const std::filesystem::path& to,
                         const std::string& record,
                         const std::function<std::string(std::string)>& edit,
                         bool compress = false) {
  caffe2::serialize::PyTorchStreamReader reader(from.string());
  caffe2::serialize::PyTorchStreamWriter writer(to.string());
  for (const std::string& name : reader.getAllRecords()) {
    if (name.starts_with(".data/") || name == "byteorder" || name == "version") {
      continue;
    }
    auto [data, size] = reader.getRecord(name);
    std::string content(static_cast<const char*>(data.get()), size);
    if (name == record) {
      content = edit(std::move(content));
    }
    writer.writeRecord(name, content.data(), content.size(), compress);
  }
  writer.writeEndOfFile();
}

}  // namespace kiln::exporter

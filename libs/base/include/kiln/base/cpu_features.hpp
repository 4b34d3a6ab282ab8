// What this CPU can do, by the names of /proc/cpuinfo.
//
// One word is our own: "sve256" where SVE vectors have 256 bits, which /proc/cpuinfo does not tell.
//
// Header only, and without streams: it is also compiled into model libraries, which link nothing of
// Kiln.

#pragma once

#if defined(__aarch64__)
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// The words of `text`, which has blanks between them.
[[nodiscard]] inline std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size()));
    if (text.empty()) {
      return words;
    }
    const std::string_view word = text.substr(0, text.find_first_of(" \t\n"));
    words.emplace_back(word);
    text.remove_prefix(word.size());
  }
}

/// The features in the text of a /proc/cpuinfo: the words of its first "flags" (x86) or "Features"
/// (AArch64) line.
[[nodiscard]] inline std::vector<std::string> cpu_features_in(std::string_view cpuinfo) {
  while (!cpuinfo.empty()) {
    const std::string_view line = cpuinfo.substr(0, cpuinfo.find('\n'));
    if (line.starts_with("flags") || line.starts_with("Features")) {
      return words_of(line.substr(std::min(line.find(':') + 1, line.size())));
    }
    cpuinfo.remove_prefix(std::min(line.size() + 1, cpuinfo.size()));
  }
  return {};
}

/// The features of this machine; empty where it does not tell.
[[nodiscard]] inline std::vector<std::string> cpu_features() {
  // One processor's block is enough, and the kernel takes its time over many.
  std::string text(8192, '\0');
  std::FILE* file = std::fopen("/proc/cpuinfo", "re");
  if (file == nullptr) {
    return {};
  }
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  std::vector<std::string> features = cpu_features_in(text);
#if defined(__aarch64__) && defined(PR_SVE_GET_VL)
  if (const int length = ::prctl(PR_SVE_GET_VL); length >= 0) {
    features.push_back("sve" + std::to_string(8 * (length & PR_SVE_VL_LEN_MASK)));
  }
#endif
  return features;
}

/// Those of the words in `needed` that are not among `present`, with blanks between them. None if
/// nothing is known of what is present.
[[nodiscard]] inline std::string missing_cpu_features(std::string_view needed,
                                                      const std::vector<std::string>& present) {
  std::string missing;
  for (const std::string& feature : words_of(needed)) {
    if (!present.empty() && std::find(present.begin(), present.end(), feature) == present.end()) {
      missing += (missing.empty() ? "" : " ") + feature;
    }
  }
  return missing;
}

/// The last of `needed`, each as above, of which nothing is missing; the first if there is none, or
/// if nothing is known of what is present.
[[nodiscard]] inline std::size_t best_cpu_level(std::span<const char* const> needed,
                                                const std::vector<std::string>& present) {
  for (std::size_t i = needed.size(); i-- > 1;) {
    if (!present.empty() && missing_cpu_features(needed[i], present).empty()) {
      return i;
    }
  }
  return 0;
}

}  // namespace kiln

// Where things are in a package, fixed by AOTInductor.

#pragma once

#include <map>
#include <string>

namespace kiln::container_runtime {

inline constexpr const char* kModelsFolder = "data/aotinductor/";
inline constexpr const char* kExtraFolder = "extra/";
inline constexpr const char* kSampleInputsFolder = "data/sample_inputs/";
inline constexpr const char* kLibrarySuffix = ".wrapper.so";
inline constexpr const char* kSourceSuffix = ".wrapper.cpp";
inline constexpr const char* kMetadataSuffix = ".wrapper_metadata.json";
inline constexpr const char* kExternNodesSuffix = ".wrapper.json";
inline constexpr const char* kDeviceKey = "AOTI_DEVICE_KEY";
inline constexpr const char* kInstancesKey = "KILN_INSTANCES";  // a decimal number above 0
// Of the library without the weights behind it, and with them: see package_checksums.hpp.
inline constexpr const char* kCodeChecksumKey = "KILN_CODE_CHECKSUM";
inline constexpr const char* kLibraryChecksumKey = "KILN_LIBRARY_CHECKSUM";
inline constexpr const char* kMachineKey = "AOTI_MACHINE";

/// The folder of a model, with the slash.
inline std::string model_folder(const std::string& model_name) {
  return kModelsFolder + model_name + "/";
}

/// Adds what the JSON object in `text`, read from `file`, says; throws `Error` with `kCorrupt` if
/// it is none.
void add_metadata(std::map<std::string, std::string>& metadata,
                  const std::string& text,
                  const std::string& file);

}  // namespace kiln::container_runtime

#include "kiln/version.hpp"

#define KILN_TEXT_OF(number) #number
#define KILN_VERSION_TEXT(major, minor, patch) \
  KILN_TEXT_OF(major) "." KILN_TEXT_OF(minor) "." KILN_TEXT_OF(patch)

namespace kiln {

std::string_view version() {
  return KILN_VERSION_TEXT(KILN_VERSION_MAJOR, KILN_VERSION_MINOR, KILN_VERSION_PATCH);
}

}  // namespace kiln

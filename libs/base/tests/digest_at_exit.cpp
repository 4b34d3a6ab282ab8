// A program whose static object computes a digest when it is destroyed, which is after OpenSSL has
// cleaned up where that is left to its own exit handler. Ends with 0 if the digest is right.

#include <cstdlib>

#include "kiln/base/digest.hpp"

namespace {

struct DigestAtExit {
  ~DigestAtExit() {
    if (kiln::digest("abc").hex().substr(0, 8) != "ba7816bf") {
      std::_Exit(1);
    }
  }
};

}  // namespace

int main() {
  static const DigestAtExit last;  // Destroyed after what the next line sets up.
  return kiln::digest("abc").hex().size() == 64 ? 0 : 1;
}

// A library with none of the entries.
extern "C" __attribute__((visibility("default"))) int nothing() {
  return 0;
}

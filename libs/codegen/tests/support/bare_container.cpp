// The least that a model library needs beside the model: a way to reach the table.

struct KilnModel;
extern "C" const KilnModel kiln_model;

extern "C" __attribute__((visibility("default"))) const KilnModel* kiln_test_model() {
  return &kiln_model;
}

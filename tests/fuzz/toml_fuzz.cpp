// Model descriptions.
#include "frontend/toml.hpp"
#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  try {
    const TomlModel model = read_toml(fuzz::text_of(data, size), "fuzz.toml");
    fuzz::check_graph(model.graph->ir());
  } catch (const Error&) {
  }
  return 0;
}

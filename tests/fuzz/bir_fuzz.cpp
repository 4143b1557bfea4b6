// Graphs as text.
#include "fuzz.hpp"
#include "ir/diagnostic.hpp"
#include "ir/text.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  try {
    fuzz::check_graph(ir::parse(fuzz::text_of(data, size), "fuzz.bir"));
  } catch (const Error&) {
  }
  return 0;
}
